package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// Values are the values of one header. In JSON they are a list of strings, or a string when there is one.
type Values []string

// UnmarshalJSON takes either form.
func (v *Values) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*v = Values{one}

		return nil
	}

	var list []string
	if err := json.Unmarshal(text, &list); err != nil {
		return errors.New("a header is a string or a list of strings")
	}

	*v = list

	return nil
}

// Schema says so in the OpenAPI document.
func (Values) Schema(huma.Registry) *huma.Schema {
	most := MaxEntries
	text := &huma.Schema{Type: huma.TypeString}

	return &huma.Schema{OneOf: []*huma.Schema{text, {Type: huma.TypeArray, Items: text, MaxItems: &most}}}
}

// Request is the attributes as the SDK takes them. The error is a *FieldError.
func (a *Attributes) Request() (leaseway.Request, error) {
	req := leaseway.Request{
		User: a.User, APIKey: a.APIKey,
		Method: a.Method, Host: a.Host, Path: a.Path,
		Descriptors: a.Descriptors, Domain: a.Domain,
	}

	if err := a.bounded(); err != nil {
		return req, err
	}

	var err error
	if req.Class, err = classOf("class", a.Class); err != nil {
		return req, err
	}

	if req.LowerTo, err = classOf("lowerTo", a.LowerTo); err != nil {
		return req, err
	}

	if a.IP != "" {
		ip, err := netip.ParseAddr(a.IP)
		if err != nil {
			return req, unfit("attributes.ip", "is no address: write one such as 192.0.2.7 or 2001:db8::7, without a port")
		}

		req.IP = ip
	}

	if a.Path != "" && a.Path[0] != '/' {
		return req, unfit("attributes.path", "does not begin with a slash: write the path alone, without scheme and host")
	}

	if len(a.Headers) > 0 {
		req.Headers = make(map[string][]string, len(a.Headers))
	}

	for _, e := range a.Entries {
		req.Entries = append(req.Entries, rule.Entry(e))
	}

	for name, values := range a.Headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if _, twice := req.Headers[canonical]; twice {
			return req, unfit("attributes.headers", "names "+canonical+" twice, in two spellings: give it one list of values")
		}

		req.Headers[canonical] = values
	}

	return req, nil
}

// classOf reads a class; an empty text is none.
func classOf(field, text string) (rule.Class, error) {
	class, ok := rule.ParseClass(text)
	if !ok && text != "" {
		return class, unfit("attributes."+field, "is no class: write critical, write, read or test")
	}

	return class, nil
}

// bounded refuses what is too long or too many, before anything is made of it.
func (a *Attributes) bounded() error {
	texts := [...]struct{ field, value string }{
		{"user", a.User},
		{"apikey", a.APIKey},
		{"method", a.Method},
		{"path", a.Path},
		{"host", a.Host},
		{"domain", a.Domain},
	}
	for _, text := range texts {
		if len(text.value) > MaxText {
			return tooLong("attributes."+text.field, len(text.value))
		}
	}

	lists := [...]struct {
		field string
		size  int
	}{
		{"headers", len(a.Headers)}, {"descriptors", len(a.Descriptors)}, {"entries", len(a.Entries)},
	}
	for _, list := range lists {
		if list.size > MaxEntries {
			return unfit("attributes."+list.field, fmt.Sprintf("has %d entries, and may have %d", list.size, MaxEntries))
		}
	}

	for _, e := range a.Entries {
		if n := len(e.Key) + len(e.Value); n > MaxText {
			return tooLong("attributes.entries", n)
		}
	}

	for name, value := range a.Descriptors {
		if n := len(name) + len(value); n > MaxText {
			return tooLong("attributes.descriptors", n)
		}
	}

	for name, values := range a.Headers {
		if n := len(name) + len(strings.Join(values, "")); n > MaxText {
			return tooLong("attributes.headers", n)
		}
	}

	return nil
}

func tooLong(field string, n int) error {
	return unfit(field, fmt.Sprintf("has %d bytes, and may have %d", n, MaxText))
}
