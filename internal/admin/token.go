package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// The settings that keep tokens are called by the prefix and the id of the token.
const tokenPrefix = "token/"

// A token is tokenMark, its id, a low line and its secret: by the id it is found, by the secret it is believed.
const (
	tokenMark   = "lw_"
	tokenIDSize = 5  // bytes, 8 letters
	secretSize  = 32 // bytes
	maxToken    = 512
)

// HolderRole is what the API calls the role of tokens by which services and holders call. They may not administrate.
const HolderRole = "holder"

// Token is a bearer token as it is kept: without its secret.
type Token struct {
	// Name says whose it is; it is the author of what is done with it.
	Name string `json:"name"`
	// Role is viewer, operator, admin or holder.
	Role string `json:"role"`
	// Rules are how the ids of the rules begin that it is for; empty for all.
	Rules []string `json:"rules,omitempty"`
	// SHA256 is that of the whole token, in hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Created is when, and Expires when it ends; zero for never.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
}

// Drawn is a token that was just drawn.
type Drawn struct {
	// ID is how its text begins, after a mark. Text is what its owner shows; it is kept nowhere.
	ID, Text string
	// Setting keeps the rest.
	Setting rulestore.SettingChange
}

// NewToken draws a token. Name, Role, Rules, Created and Expires of t are given.
func NewToken(t Token) (Drawn, error) {
	var drawn [tokenIDSize + secretSize]byte

	_, _ = rand.Read(drawn[:]) // it never fails: see crypto/rand

	id := strings.ToLower(base32.StdEncoding.EncodeToString(drawn[:tokenIDSize]))
	text := tokenMark + id + "_" + base64.RawURLEncoding.EncodeToString(drawn[tokenIDSize:])
	sum := sha256.Sum256([]byte(text))
	t.SHA256 = hex.EncodeToString(sum[:])

	value, err := json.Marshal(t)

	return Drawn{ID: id, Text: text, Setting: rulestore.SettingChange{Name: tokenPrefix + id, Value: value, If: rulestore.Absent}}, err
}

// tokenBook is the tokens of one state.
type tokenBook struct {
	state *rulestore.State
	byID  map[string]*Token
	bad   bool // there are some that cannot be read
}

// tokensNow reads the tokens of the present state, once for each.
func (d *Door) tokensNow(ctx context.Context) (*tokenBook, error) {
	state, err := d.view.state(ctx)
	if err != nil {
		return nil, err
	}

	if state.Settings == nil { // a start without the store, and with rules alone
		return nil, refuse(http.StatusServiceUnavailable, "it could not be read since the start")
	}

	if book := d.tokens.Load(); book != nil && book.state == state {
		return book, nil
	}

	book := newTokenBook(state)
	d.tokens.Store(book)

	return book, nil
}

func newTokenBook(state *rulestore.State) *tokenBook {
	book := &tokenBook{state: state, byID: map[string]*Token{}}

	for name, value := range state.Settings {
		id, is := strings.CutPrefix(name, tokenPrefix)
		if !is {
			continue
		}

		t := &Token{}
		if json.Unmarshal(value, t) != nil {
			book.bad = true

			continue
		}

		book.byID[id] = t
	}

	// A row that somebody broke by hand still says that there was a token.
	book.bad = book.bad || slices.ContainsFunc(state.Bad, func(b rulestore.BadRow) bool {
		return strings.HasPrefix(b.Place, rulestore.SettingPlace(tokenPrefix))
	})

	return book
}

// any says whether there is a token, valid or not.
func (b *tokenBook) any() bool { return len(b.byID) > 0 || b.bad }

// admins says how many tokens may do everything, for how long they may.
func (b *tokenBook) admins(now time.Time) (n int) {
	for _, t := range b.byID {
		if t.Role == Admin.String() && len(t.Rules) == 0 && t.valid(now) {
			n++
		}
	}

	return n
}

// holders says whether there is a token for services and holders.
func (b *tokenBook) holders() bool {
	for _, t := range b.byID {
		if t.Role == HolderRole {
			return true
		}
	}

	return false
}

// required says whether services and holders without a token are refused. Where nobody said so, they are once there is one.
func (b *tokenBook) required() bool {
	if value, set := b.state.Settings[requireHolderToken]; set {
		return string(bytes.TrimSpace(value)) != "false" // what somebody broke by hand lets nobody in
	}

	return b.holders()
}

func (t *Token) valid(now time.Time) bool { return t.Expires.IsZero() || now.Before(t.Expires) }

// owner is whose token this is; nil if it is nobody's. How long it takes tells nothing about the secret.
func (b *tokenBook) owner(token string, now time.Time) *principal {
	id, _, found := strings.Cut(strings.TrimPrefix(token, tokenMark), "_")
	t := b.byID[id]

	if !found || t == nil || len(token) > maxToken {
		return nil
	}

	sum := sha256.Sum256([]byte(token))
	kept, err := hex.DecodeString(t.SHA256)

	if err != nil || subtle.ConstantTimeCompare(sum[:], kept) != 1 || !t.valid(now) {
		return nil
	}

	p := &principal{name: t.Name, rules: t.Rules, caller: t.Role == HolderRole}
	if role := slices.Index(roleWords(), t.Role); role > 0 {
		p.role = Role(role)
	}

	if p.role == Nobody && !p.caller {
		return nil // of a newer Leaseway, or somebody's hand
	}

	return p
}

// Allows says whether a token is one by which services and holders may call: one of Config.Callers, or one of role holder that
// the store keeps. The empty one is, while those without a token are let in. While the store is out of reach its tokens go on as
// last heard.
func (d *Door) Allows(token string) bool {
	if d.config.Callers != nil && d.config.Callers.Allows(token) {
		return true
	}

	if state := d.view.newest(); state != nil && state.Settings == nil {
		return false // or else those whom a token keeps out would come in
	}

	book := d.callersNow()

	switch {
	case token == "":
		return d.config.Callers == nil && (book == nil || !book.required())
	case book == nil:
		return false
	}

	p := book.owner(token, d.config.Now())

	return p != nil && p.caller
}

// callersNow is the tokens as last heard, for those who cannot wait; nil before the first.
func (d *Door) callersNow() *tokenBook {
	state := d.view.newest()
	if state == nil {
		return nil
	}

	book := d.callers.Load()
	if book == nil || book.state != state {
		book = newTokenBook(state)
		d.callers.Store(book)
	}

	return book
}
