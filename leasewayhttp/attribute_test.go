package leasewayhttp

import (
	"net/url"
	"testing"
)

// The quick way gives each byte of a path as net/url does, alone and among others, and a path that was escaped otherwise stays so.
func TestPathsAreEscapedAsByNetURL(t *testing.T) {
	for c := range 256 {
		for _, path := range []string{string([]byte{byte(c)}), "/v1/" + string([]byte{byte(c)}) + "x"} {
			u := &url.URL{Path: path}
			if got, want := escapedPath(u), u.EscapedPath(); got != want {
				t.Errorf("%q is %q, want %q", path, got, want)
			}
		}
	}
	if got := escapedPath(&url.URL{Path: "/a/b", RawPath: "/a%2Fb"}); got != "/a%2Fb" {
		t.Errorf("a path that says how it came is %q, want /a%%2Fb", got)
	}
}
