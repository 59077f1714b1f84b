package check

import (
	"strings"
	"testing"

	"github.com/leaseway/leaseway"
)

// The bucket leaks a token in 12 minutes, so that none leaks while a test runs.
const leaky = `
rules:
  - {id: paced, scope: /v1/paced, keyBy: user, algorithm: leaky_bucket, limit: 5, window: 1h}
  - {id: swift, scope: /v1/swift, keyBy: user, algorithm: leaky_bucket, limit: 100, window: 1s}
`

func TestDelaysOfALeakyBucket(t *testing.T) {
	const minutes = 60_000

	for _, route := range []struct{ path, question, class string }{
		{"/v1/check", `{"attributes": {"user": "ada", "path": "/v1/paced"}`, "write"},
		{"/v1/rules/paced/check", `{"key": "ada"`, ""},
	} {
		door := newDoorFor(t, leaky)

		for i, step := range []struct {
			more string
			want Answer // of which delayMs is rounded up to 100,000, and the seconds as near says
		}{
			{``, Answer{Allowed: true, Remaining: 4, Limit: 5, ResetSec: 720}},
			{``, Answer{Remaining: 4, Limit: 5, ResetSec: 720, RetryAfterSec: 720, Reason: "delayed"}},
			{`, "cost": 0`, Answer{Remaining: 4, Limit: 5, ResetSec: 720, RetryAfterSec: 720, Reason: "delayed"}},
			{`, "cost": 0, "passDelay": true`, Answer{Allowed: true, Remaining: 4, Limit: 5, ResetSec: 720, DelayMs: 12 * minutes}},
			{`, "passDelay": true`, Answer{Allowed: true, Remaining: 3, Limit: 5, ResetSec: 1440, DelayMs: 12 * minutes}},
			{`, "passDelay": true, "cost": 3`, Answer{Allowed: true, Limit: 5, ResetSec: 3600, DelayMs: 24 * minutes}},
			{`, "passDelay": true`, Answer{Limit: 5, ResetSec: 3600, RetryAfterSec: 720, Reason: "over_limit"}},
			{``, Answer{Limit: 5, ResetSec: 3600, RetryAfterSec: 720, Reason: "over_limit"}},
		} {
			step.want.Rule, step.want.Class = "paced", route.class

			got := ask(t, door, route.path, route.question+step.more+`}`)
			if d := step.want.DelayMs - got.DelayMs; d >= 0 && d < minutes/2 && got.DelayMs > 0 {
				got.DelayMs = step.want.DelayMs
			}

			if !got.near(step.want) {
				t.Errorf("%s, step %d: got %+v, want %+v", route.path, i, got, step.want)
			}
		}
	}
}

// Some ten milliseconds are passed on unasked; they are no refusal, and said.
func TestShortDelaysArePassedOn(t *testing.T) {
	door := newDoorFor(t, leaky)
	question := `{"attributes": {"user": "ada", "path": "/v1/swift"}}`

	longest, refused := int64(0), 0

	for range 100 {
		answer := ask(t, door, "/v1/check", question)
		longest = max(longest, answer.DelayMs)

		switch {
		case answer.Allowed && answer.DelayMs <= MaxDelay.Milliseconds():
		case !answer.Allowed && answer.Reason == Reason(leaseway.ReasonDelayed.String()) && answer.DelayMs == 0 && answer.RetryAfterSec == 1:
			refused++
		default:
			t.Fatalf("got %+v", answer)
		}
	}

	// A refusal takes nothing: the bucket never fills, however many ask.
	if answer := ask(t, door, "/v1/check", `{"attributes": {"user": "ada", "path": "/v1/swift"}, "cost": 0, "passDelay": true}`); answer.Remaining < 95 {
		t.Errorf("%d tokens are left after %d refusals, want all but those of 20 ms: %+v", answer.Remaining, refused, answer)
	}

	if longest == 0 {
		t.Errorf("no delay was said for 100 requests at once, %d of them refused", refused)
	}
}

func TestPassDelayIsABoolean(t *testing.T) {
	w := post(newDoor(t), "/v1/check", `{"attributes": {}, "passDelay": "yes"}`)
	if w.Code != 422 || !strings.Contains(w.Body.String(), "body.passDelay") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
