package rule

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The canonical document: what a rule leaves to its default is left out, names are in one order, and one set has one text.
type (
	// setDocument is the whole.
	setDocument struct {
		Version  uint64            `json:"version,omitempty"`
		Identity *identityDocument `json:"identity,omitempty"`
		Headers  Headers           `json:"headers,omitempty"`
		Classes  []classDocument   `json:"classes,omitempty"`
		Shedders *sheddersDocument `json:"shedders,omitempty"`
		Switches *switchesDocument `json:"switches,omitempty"`
		Rules    []ruleDocument    `json:"rules"`
	}
	// identityDocument has an empty list where no API key is looked for.
	identityDocument struct {
		APIKey []string      `json:"apikey"`
		User   *userDocument `json:"user,omitempty"`
	}
	// userDocument is left out where no header names the user.
	userDocument struct {
		Header  string `json:"header"`
		Trusted bool   `json:"trusted,omitempty"`
	}
	// sheddersDocument has those that there are, be they without a setting.
	sheddersDocument struct {
		Worker *workerDocument `json:"worker,omitempty"`
		Fleet  *fleetDocument  `json:"fleet,omitempty"`
	}
	// workerDocument is what differs from the usual.
	workerDocument struct {
		Mode      string `json:"mode,omitempty"`
		High      string `json:"high,omitempty"`
		Low       string `json:"low,omitempty"`
		Rise      string `json:"rise,omitempty"`
		Fall      string `json:"fall,omitempty"`
		Hold      string `json:"hold,omitempty"`
		Stale     string `json:"stale,omitempty"`
		InFlight  int64  `json:"inFlight,omitempty"`
		QueueWait string `json:"queueWait,omitempty"`
	}
	// fleetDocument is what differs from the usual.
	fleetDocument struct {
		Mode     string `json:"mode,omitempty"`
		Reserve  string `json:"reserve,omitempty"`
		Capacity int64  `json:"capacity,omitempty"`
	}
	// switchesDocument has those that are off.
	switchesDocument struct {
		All      any            `json:"all,omitempty"`
		Limiters map[string]any `json:"limiters,omitempty"`
		Rules    map[string]any `json:"rules,omitempty"`
	}
	// switchDocument says more than "off".
	switchDocument struct {
		Off    bool   `json:"off"`
		Until  string `json:"until,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	// classDocument is an entry of classes.
	classDocument struct {
		Class         string         `json:"class"`
		Scope         *scopeDocument `json:"scope,omitempty"`
		PathCase      string         `json:"pathCase,omitempty"`
		TrailingSlash string         `json:"trailingSlash,omitempty"`
		APIKeyPrefix  []string       `json:"apikeyPrefix,omitempty"`
	}
	// ruleDocument leaves a burst out that is the limit, as Parse puts it there.
	ruleDocument struct {
		ID            string             `json:"id"`
		Version       uint64             `json:"version,omitempty"`
		Description   string             `json:"description,omitempty"`
		Scope         *scopeDocument     `json:"scope,omitempty"`
		PathCase      string             `json:"pathCase,omitempty"`
		TrailingSlash string             `json:"trailingSlash,omitempty"`
		KeyBy         []string           `json:"keyBy,omitempty"`
		Normalize     []string           `json:"normalize,omitempty"`
		IPv6Prefix    int                `json:"ipv6Prefix,omitempty"`
		Missing       string             `json:"missing,omitempty"`
		Secret        bool               `json:"secret,omitempty"`
		Algorithm     string             `json:"algorithm,omitempty"`
		Limit         int64              `json:"limit,omitempty"`
		Window        string             `json:"window,omitempty"`
		TimeZone      string             `json:"timeZone,omitempty"`
		Burst         int64              `json:"burst,omitempty"`
		Block         bool               `json:"block,omitempty"`
		Cost          any                `json:"cost,omitempty"`
		Queue         *queueDocument     `json:"queue,omitempty"`
		Mode          string             `json:"mode,omitempty"`
		Rollout       json.Number        `json:"rollout,omitempty"`
		Before        *beforeDocument    `json:"before,omitempty"`
		OnUnavailable string             `json:"onUnavailable,omitempty"`
		AfterLoss     string             `json:"afterLoss,omitempty"`
		Fallback      *quotaDocument     `json:"fallback,omitempty"`
		Lease         *leaseDocument     `json:"lease,omitempty"`
		Slack         int64              `json:"slack,omitempty"`
		Overrides     []overrideDocument `json:"overrides,omitempty"`
	}
	// beforeDocument has what differs from the rule.
	beforeDocument struct {
		Limit         int64          `json:"limit,omitempty"`
		Window        string         `json:"window,omitempty"`
		TimeZone      string         `json:"timeZone,omitempty"`
		Burst         int64          `json:"burst,omitempty"`
		Block         bool           `json:"block,omitempty"`
		Mode          string         `json:"mode,omitempty"`
		OnUnavailable string         `json:"onUnavailable,omitempty"`
		Fallback      *quotaDocument `json:"fallback,omitempty"`
		Lease         *leaseDocument `json:"lease,omitempty"`
		Slack         *int64         `json:"slack,omitempty"`
	}
	// scopeDocument has maps by name, which JSON writes sorted.
	scopeDocument struct {
		Paths       []string            `json:"paths,omitempty"`
		Methods     []string            `json:"methods,omitempty"`
		Hosts       []string            `json:"hosts,omitempty"`
		Headers     map[string][]string `json:"headers,omitempty"`
		Descriptors map[string][]string `json:"descriptors,omitempty"`
		Domain      string              `json:"domain,omitempty"`
		Entries     []entryDocument     `json:"entries,omitempty"`
	}
	// entryDocument is an entry of a scope.
	entryDocument struct {
		Key    string   `json:"key"`
		Value  []string `json:"value,omitempty"`
		Except []string `json:"except,omitempty"`
	}
	// quotaDocument is a fallback.
	quotaDocument struct {
		Limit  int64  `json:"limit,omitempty"`
		Window string `json:"window,omitempty"`
		Burst  int64  `json:"burst,omitempty"`
	}
	// leaseDocument is a map in the document, so that it can hold more than a TTL one day.
	leaseDocument struct {
		TTL string `json:"ttl"`
	}
	// queueDocument is a queue of a concurrency rule.
	queueDocument struct {
		Size int64  `json:"size"`
		Wait string `json:"wait"`
	}
	// overrideDocument has the key as it was written: people know their keys by that.
	overrideDocument struct {
		Key    string         `json:"key"`
		Limit  int64          `json:"limit,omitempty"`
		Window string         `json:"window,omitempty"`
		Burst  int64          `json:"burst,omitempty"`
		Lease  *leaseDocument `json:"lease,omitempty"`
	}
)

// Marshal gives the document in canonical JSON, versions included: Parse makes an equal set of it.
func (s *Set) Marshal() []byte {
	doc := setDocument{Version: s.Version, Rules: make([]ruleDocument, len(s.Rules))}
	if usual := defaultIdentity(); !slices.Equal(s.Identity.APIKey, usual.APIKey) || s.Identity.User != usual.User {
		doc.Identity = s.Identity.document()
	}
	if s.Headers != HeadersBoth {
		doc.Headers = s.Headers
	}
	for i := range s.Classes {
		doc.Classes = append(doc.Classes, s.Classes[i].document())
	}
	doc.Shedders, doc.Switches = s.Shedders.document(), s.Switches.document()
	for i, r := range s.Rules {
		doc.Rules[i] = r.document()
	}
	return encode(doc)
}

// doesAs says whether two rules do the same: all but version and description is equal.
func (r *Rule) doesAs(other *Rule) bool {
	a, b := r.document(), other.document()
	a.Version, b.Version = 0, 0
	a.Description, b.Description = "", ""
	return bytes.Equal(encode(a), encode(b))
}

// encode writes JSON without the escapes that are for HTML.
func encode(doc any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		// The document types hold only strings, numbers, lists and maps by name, which always encode.
		return nil
	}
	return escapeForYAML(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// escapeForYAML escapes the characters that JSON lets stand in a string and YAML does not, or reads as a line break.
func escapeForYAML(text []byte) []byte {
	if bytes.IndexFunc(text, strangeToYAML) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, c := range string(text) {
		if strangeToYAML(c) {
			out = fmt.Appendf(out, "\\u%04x", c)
		} else {
			out = utf8.AppendRune(out, c)
		}
	}
	return out
}

// strangeToYAML says whether a character has to be escaped (YAML 1.2, section 5.1; the line breaks of YAML 1.1 too).
func strangeToYAML(c rune) bool {
	return c >= 0x7f && c < 0xa0 || c == 0xfeff || c == 0xfffe || c == 0xffff
}

// document writes all of it: what is left out would be the default.
func (id Identity) document() *identityDocument {
	doc := &identityDocument{APIKey: []string{}}
	for _, c := range id.APIKey {
		if c.Bearer {
			doc.APIKey = append(doc.APIKey, "bearer")
		} else {
			doc.APIKey = append(doc.APIKey, c.Header)
		}
	}
	if id.User.Header != "" {
		doc.User = &userDocument{Header: id.User.Header, Trusted: id.User.Trusted}
	}
	return doc
}

// document is nil without a shedder.
func (s *Shedders) document() *sheddersDocument {
	if s.Worker == nil && s.Fleet == nil {
		return nil
	}
	doc := &sheddersDocument{}
	if w := s.Worker; w != nil {
		doc.Worker = &workerDocument{
			Mode: unusual(int(w.Mode), modeWords()), High: percentText(w.High, usualHigh), Low: percentText(w.Low, usualLow),
			Rise: unusualSpan(w.Rise, usualRise), Fall: unusualSpan(w.Fall, usualFall),
			Hold: spanText(w.Hold), Stale: unusualSpan(w.Stale, usualStale), InFlight: w.InFlight, QueueWait: spanText(w.QueueWait),
		}
	}
	if f := s.Fleet; f != nil {
		doc.Fleet = &fleetDocument{
			Mode: unusual(int(f.Mode), modeWords()), Reserve: percentText(f.Reserve, usualReserve), Capacity: f.Capacity,
		}
	}
	return doc
}

// percentText is a share, or nothing when it is the usual one.
func percentText(share, usual int) string {
	if share == usual {
		return ""
	}
	return strconv.Itoa(share) + "%"
}

// unusualSpan is a span of time, or nothing when it is the usual one.
func unusualSpan(d, usual time.Duration) string {
	if d == usual {
		return ""
	}
	return formatDuration(d)
}

// document is nil when all are on.
func (s *Switches) document() *switchesDocument {
	doc := &switchesDocument{All: s.All.document(), Limiters: map[string]any{}, Rules: map[string]any{}}
	for kind := range limiters {
		if s.Limiters[kind].Off {
			doc.Limiters[kind.String()] = s.Limiters[kind].document()
		}
	}
	for id, one := range s.Rules {
		doc.Rules[id] = one.document()
	}
	if doc.All == nil && len(doc.Limiters)+len(doc.Rules) == 0 {
		return nil
	}
	return doc
}

// document is nil for one that is on.
func (s Switch) document() any {
	switch {
	case !s.Off:
		return nil
	case s.Until.IsZero() && s.Reason == "":
		return "off"
	case s.Until.IsZero():
		return switchDocument{Off: true, Reason: s.Reason}
	}
	return switchDocument{Off: true, Until: s.Until.Format(time.RFC3339), Reason: s.Reason}
}

// document is the entry without its defaults.
func (c *Classified) document() classDocument {
	return classDocument{
		Class: c.Class.String(), Scope: c.Scope.document(), APIKeyPrefix: c.APIKeyPrefixes,
		PathCase:      unusual(int(c.Scope.PathCase), pathCaseWords()),
		TrailingSlash: unusual(int(c.Scope.TrailingSlash), trailingSlashWords()),
	}
}

// document is the rule without its defaults.
func (r *Rule) document() ruleDocument {
	doc := ruleDocument{
		ID: r.ID, Version: r.Version, Description: r.Description,
		Scope:         r.Scope.document(),
		PathCase:      unusual(int(r.Scope.PathCase), pathCaseWords()),
		TrailingSlash: unusual(int(r.Scope.TrailingSlash), trailingSlashWords()),
		Normalize:     r.Normalize.words(),
		Missing:       unusual(int(r.Missing), missingWords()),
		Secret:        r.Secret,
		Algorithm:     unusual(int(r.Algorithm), algorithmWords()),
		Limit:         r.Limit, Block: r.Block,
		Mode:          unusual(int(r.Mode), modeWords()),
		OnUnavailable: unusual(int(r.OnUnavailable), onUnavailableWords()),
		AfterLoss:     unusual(int(r.AfterLoss), afterLossWords()),
		Slack:         r.Slack,
		Overrides:     overrideDocuments(r.Overrides),
	}
	if r.KeyBy[0].Kind != KeyGlobal {
		for _, part := range r.KeyBy {
			doc.KeyBy = append(doc.KeyBy, part.String())
		}
	}
	if r.IPv6Prefix != usualIPv6 {
		doc.IPv6Prefix = r.IPv6Prefix
	}
	doc.Window, doc.TimeZone = r.windowText()
	if r.Burst != r.Limit {
		doc.Burst = r.Burst
	}
	switch {
	case r.Cost.Header != "":
		doc.Cost = "header:" + r.Cost.Header
	case r.Cost.Tokens != 1:
		doc.Cost = r.Cost.Tokens
	}
	if q := r.Queue; q.Size != 0 {
		doc.Queue = &queueDocument{Size: q.Size, Wait: formatDuration(q.Wait)}
	}
	if usual := r.usualTTL(); r.LeaseTTL != usual {
		doc.Lease = &leaseDocument{TTL: formatDuration(r.LeaseTTL)}
	}
	doc.Fallback = r.Fallback.document()
	if r.Withheld != 0 {
		doc.Rollout = json.Number(r.Rollout())
	}
	if r.Before != nil {
		doc.Before = r.Before.documentOver(r)
	}
	return doc
}

// documentOver is what r says otherwise than the rule whose version before it is.
func (r *Rule) documentOver(of *Rule) *beforeDocument {
	doc := &beforeDocument{Block: r.Block && !of.Block}
	if !r.Block && r.Limit != of.Limit {
		doc.Limit = r.Limit
	}
	if usual := cmp.Or(doc.Limit, of.Burst); !r.Block && r.Burst != usual {
		doc.Burst = r.Burst
	}
	window, zone := r.windowText()
	if theirs, theirZone := of.windowText(); window != theirs || zone != theirZone {
		doc.Window, doc.TimeZone = window, zone
	}
	if r.Mode != of.Mode {
		doc.Mode = r.Mode.String()
	}
	if r.OnUnavailable != of.OnUnavailable {
		doc.OnUnavailable = r.OnUnavailable.String()
	}
	if f := r.Fallback; f != nil && (of.Fallback == nil || *f != *of.Fallback) {
		doc.Fallback = f.document()
	}
	if r.LeaseTTL != of.LeaseTTL {
		doc.Lease = &leaseDocument{TTL: formatDuration(r.LeaseTTL)}
	}
	if r.Slack != of.Slack {
		doc.Slack = &r.Slack
	}
	if *doc == (beforeDocument{}) {
		doc.Mode = r.Mode.String() // it must not be empty
	}
	return doc
}

// windowText is the window, with the zone that a calendar's has.
func (r *Rule) windowText() (window, zone string) {
	window = spanText(r.Window)
	if r.Calendar == CalendarMonth {
		window = monthWindow
	}
	// A day needs its zone, or else it would be 24 hours; for a month UTC is the default.
	if z := r.TimeZone; z != nil && (r.Calendar == CalendarDay || z != time.UTC) {
		zone = z.String()
	}
	return window, zone
}

// document is nil for no quota.
func (q *Quota) document() *quotaDocument {
	if q == nil {
		return nil
	}
	return &quotaDocument{Limit: q.Limit, Window: formatDuration(q.Window), Burst: q.Burst}
}

// unusual is a setting's word, or nothing when it is the default.
func unusual(i int, words []string) string {
	if i == 0 {
		return ""
	}
	return word(words, i)
}

// spanText is a span of time, or nothing.
func spanText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return formatDuration(d)
}

// words are the steps that are set.
func (n Normalize) words() []string {
	var list []string
	for i, set := range []bool{n.Trim, n.Casefold, n.NFC} {
		if set {
			list = append(list, normalizeWords()[i])
		}
	}
	return list
}

// document is nil for everything.
func (s *Scope) document() *scopeDocument {
	if len(s.Paths)+len(s.Methods)+len(s.Hosts)+len(s.Headers)+len(s.Descriptors)+len(s.Domain)+len(s.Entries) == 0 {
		return nil
	}
	doc := &scopeDocument{
		Paths: s.Paths, Methods: s.Methods, Hosts: s.Hosts,
		Headers: byName(s.Headers), Descriptors: byName(s.Descriptors), Domain: s.Domain,
	}
	for i := range s.Entries {
		doc.Entries = append(doc.Entries, entryDocument{Key: s.Entries[i].Key, Value: s.Entries[i].Values, Except: s.Entries[i].Except})
	}
	return doc
}

// byName turns attributes into a map of the document.
func byName(attributes []Attribute) map[string][]string {
	m := make(map[string][]string, len(attributes))
	for _, a := range attributes {
		m[a.Name] = a.Values
	}
	return m
}

// overrideDocuments are sorted by key, because a map is not.
func overrideDocuments(overrides map[string]Override) []overrideDocument {
	list := make([]overrideDocument, 0, len(overrides))
	for key, o := range overrides {
		doc := overrideDocument{Key: key, Limit: o.Limit, Window: spanText(o.Window), Burst: o.Burst}
		if o.LeaseTTL != 0 {
			doc.Lease = &leaseDocument{TTL: formatDuration(o.LeaseTTL)}
		}
		list = append(list, doc)
	}
	slices.SortFunc(list, func(a, b overrideDocument) int { return strings.Compare(a.Key, b.Key) })
	return list
}
