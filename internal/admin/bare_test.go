package admin

import (
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"
)

const requirePath = "/admin/settings/" + requireHolderToken

// fleetOf are holders, of which those with a star show no token.
func fleetOf(r *rig, names ...string) {
	r.fleet.roster.Instances = nil

	for i, name := range names {
		one := Instance{Name: name, Incarnation: uint64(i + 1), Version: 7}
		if name[len(name)-1] == '*' {
			one.Name, one.Bare = name[:len(name)-1], true
		}

		r.fleet.roster.Instances = append(r.fleet.roster.Instances, one)
	}
}

// Tokens are rolled out under a running fleet: the first one shuts nobody out, those who lack one are named, and one is required
// when all have it.
func TestHoldersGetTokensWithoutAnOutage(t *testing.T) {
	r := newRig(t)
	r.token = r.createToken(`{"name": "ann", "role": "admin"}`)

	fleetOf(r, "api-1*", "*")
	r.door.Bare(netip.MustParseAddr("203.0.113.9"))

	made := r.createdToken(`{"name": "edge", "role": "holder"}`)
	if want := []string{"api-1", "a holder without a name, 2", "a service at 203.0.113.9"}; !slices.Equal(made.Without, want) || made.Required {
		t.Errorf("got %v, required %v: want %v, and none required", made.Without, made.Required, want)
	}

	r.send(http.MethodGet, "/admin/instances", "").want(http.StatusOK, `"name":"api-1"`, `"withoutToken":true`)

	for token, want := range map[string]bool{"": true, made.Token: true, "lw_wrong": false} {
		if got := r.door.Allows(token); got != want {
			t.Errorf("meanwhile %q: got %v", token, got)
		}
	}

	if holders, services := r.door.Without(t.Context()); holders != 2 || services != 1 {
		t.Errorf("%d holders and %d services without, want 2 and 1", holders, services)
	}

	// One has it now, the service does not ask any more.
	fleetOf(r, "api-1", "api-2*")
	r.after(2 * time.Minute)
	r.send(http.MethodPut, requirePath, "true").want(http.StatusConflict, "api-2", "force=true").lacks("api-1", "203.0.113.9")

	if !r.door.Allows("") {
		t.Error("a refused change has shut them out")
	}

	fleetOf(r, "api-1", "api-2")
	r.send(http.MethodPut, requirePath+"?dryRun=true", "true").want(http.StatusOK)
	r.send(http.MethodPut, requirePath, "true").want(http.StatusOK)

	if r.door.Allows("") || !r.door.Allows(made.Token) {
		t.Error("a token is not required, or the right one is none")
	}

	if holders, services := r.door.Without(t.Context()); holders+services != 0 {
		t.Errorf("%d holders and %d services without, where one is required", holders, services)
	}

	// Nobody is let in again because a token goes: that is said, not concluded.
	r.send(http.MethodDelete, "/admin/tokens/"+made.ID, "").want(http.StatusOK)

	if r.door.Allows("") {
		t.Error("with the last token the requirement went")
	}

	r.send(http.MethodPut, requirePath, "false").want(http.StatusOK)

	if !r.door.Allows("") {
		t.Error("they are not let in again")
	}
}

func TestWhoIsShutOutIsAlwaysAskedFirst(t *testing.T) {
	r := newRig(t)
	r.token = r.createToken(`{"name": "ann", "role": "admin"}`)

	fleetOf(r, "api-1*")
	r.send(http.MethodPut, requirePath, "true").want(http.StatusConflict, "api-1")
	r.createToken(`{"name": "edge", "role": "holder"}`)
	r.send(http.MethodDelete, requirePath, "").want(http.StatusConflict, "api-1") // by default one is required
	r.send(http.MethodPut, requirePath, "1").want(http.StatusUnprocessableEntity, "true or false")
	r.send(http.MethodPut, requirePath+"?force=true", "true").want(http.StatusOK)

	if r.door.Allows("") {
		t.Error("it was forced, and is not required")
	}
}

// What was settled before stays so, and a store of before the setting requires tokens.
func TestATokenIsRequiredUnlessSomethingElseIsSaid(t *testing.T) {
	r := newRig(t)
	r.token = r.createToken(`{"name": "ann", "role": "admin"}`)
	r.send(http.MethodPut, requirePath, "true").want(http.StatusOK)
	r.send(http.MethodPost, "/admin/tokens", `{"name": "edge", "role": "holder"}`).want(http.StatusCreated, `"required":true`)
	r.send(http.MethodDelete, requirePath, "").want(http.StatusOK)

	if r.door.Allows("") {
		t.Error("with a token and without the setting they are let in")
	}

	r.send(http.MethodPost, "/admin/tokens", `{"name": "bob", "role": "viewer", "require": true}`).want(http.StatusUnprocessableEntity, "holder")
}

func TestWhoShowsNoTokenIsRememberedWithinBounds(t *testing.T) {
	r := newRig(t)

	for i := range 2 * mostBare {
		r.door.Bare(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}

	if got := len(r.door.bare.lately(r.clock())); got != mostBare {
		t.Errorf("%d are remembered, want %d", got, mostBare)
	}

	r.after(bareFor)

	latest := netip.MustParseAddr("192.0.2.1")
	r.door.Bare(latest)

	if got := r.door.bare.lately(r.clock()); !slices.Equal(got, []netip.Addr{latest}) || len(r.door.bare.seen) != 1 {
		t.Errorf("a minute later: got %v of %d, want the one", got, len(r.door.bare.seen))
	}
}
