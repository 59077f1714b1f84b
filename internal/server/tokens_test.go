package server

import (
	"os"
	"strings"
	"testing"
)

func TestTokensOfAFileAreTheOnesThatAreValid(t *testing.T) {
	f := &tokenFile{path: file(t, "# the old one\nfirst-token-of-all\n\n  second-token-of-all  \n"), log: (&buffer{}).logger()}
	must(t, f.open())

	for token, want := range map[string]bool{
		"first-token-of-all": true, "second-token-of-all": true,
		"": false, "first-token": false, "first-token-of-all ": false, "# the old one": false, "third": false,
	} {
		if got := f.Allows(token); got != want {
			t.Errorf("%q: valid %v, want %v", token, got, want)
		}
	}
}

func TestTokensAreReplacedWhileServing(t *testing.T) {
	log := &buffer{}
	f := &tokenFile{path: file(t, "old-secret-of-ours"), log: log.logger()}
	must(t, f.open())

	replace(t, f.path, "old-secret-of-ours\nnew-secret-of-ours\n")
	f.refresh()

	if !f.Allows("old-secret-of-ours") || !f.Allows("new-secret-of-ours") {
		t.Error("while tokens overlap both are valid")
	}

	replace(t, f.path, "new-secret-of-ours\n")
	f.refresh()

	if f.Allows("old-secret-of-ours") {
		t.Error("a token that was taken out is still valid")
	}

	for _, bad := range []string{"", "# none\n", "too short\n"} {
		replace(t, f.path, bad)
		f.refresh()
		f.refresh()

		if !f.Allows("new-secret-of-ours") {
			t.Errorf("%q made the last good token invalid", bad)
		}
	}

	must(t, os.Remove(f.path))
	f.refresh()

	if !f.Allows("new-secret-of-ours") {
		t.Error("a missing file made the last good token invalid")
	}

	if got := strings.Count(log.String(), "level=ERROR"); got != 4 {
		t.Errorf("%d lines for 3 bad contents and a missing file:\n%s", got, log)
	}

	if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "too short\n") {
		t.Errorf("the log repeats a token:\n%s", log)
	}
}

func TestTokensThatOthersCanReadAreWarnedOf(t *testing.T) {
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: true, 0o604: true} {
		log := &buffer{}
		path := file(t, secret+"\n")
		must(t, os.Chmod(path, mode))
		must(t, (&tokenFile{path: path, log: log.logger()}).open())

		if got := strings.Contains(log.String(), "chmod 600"); got != warned {
			t.Errorf("mode %o: warned %v, want %v:\n%s", mode, got, warned, log)
		}
	}
}

func TestTokenFilesThatCannotBeUsedAreARefusalToStart(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "no token",
		"# comment only\n": "no token",
		"guessable\n":      "line 1",
	} {
		f := &tokenFile{path: file(t, text), log: (&buffer{}).logger()}
		if err := f.open(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), f.path) {
			t.Errorf("%q: got %v, want the path and %q", text, err, want)
		}
	}
}

func TestBearerTokensAreReadFromTheHeader(t *testing.T) {
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer abc": "abc", "BEARER  abc ": "abc",
		"": "", "Bearer": "", "Basic abc": "", "abc": "",
	} {
		if got := bearer(header); got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
}
