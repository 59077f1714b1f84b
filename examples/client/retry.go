package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	attempts = 5
	base     = 250 * time.Millisecond // of the first pause; each later one is twice as long
	most     = 20 * time.Second       // of any pause that the server did not ask for
	patience = time.Minute            // the longest Retry-After that is worth waiting for
)

// Client sends requests, and waits when it is told to. Its zero value is ready
// to use, by many goroutines at once.
type Client struct {
	HTTP http.Client

	mu    sync.Mutex
	spent int // tenths of retries
}

// Do sends req until it is served, or until waiting is no use.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	c.budget(-1) // ten requests pay for one retry

	for attempt := 0; ; attempt++ {
		if attempt > 0 && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}

			req.Body = body
		}

		resp, err := c.HTTP.Do(req)
		told, ok := retryAfter(resp)

		if attempt == attempts-1 || !c.again(req, resp, told, ok) {
			return resp, err
		}

		if resp != nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 1<<16) // so that the connection can be used again
			_ = resp.Body.Close()
		}

		// Never earlier than told; and then by chance, so that clients who
		// were refused together do not come back together.
		pause := time.NewTimer(told + rand.N(min(most, base<<attempt)))

		select {
		case <-pause.C:
		case <-req.Context().Done():
			pause.Stop()

			return nil, req.Context().Err()
		}
	}
}

// again says whether to send req once more, after resp, or after an error if that is nil.
func (c *Client) again(req *http.Request, resp *http.Response, told time.Duration, ok bool) bool {
	switch {
	case req.Context().Err() != nil, told > patience, !rewindable(req):
		return false
	case resp == nil:
		return repeatable(req) && c.budget(10)
	case resp.StatusCode == http.StatusTooManyRequests:
		return ok // without a Retry-After waiting does not help
	}

	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return repeatable(req) && c.budget(10)
	default:
		return false
	}
}

// budget spends tenths of a retry. Once ten retries are ahead of what requests
// paid for, there are no more: a server in trouble needs less load, not more.
func (c *Client) budget(tenths int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.spent+tenths > 100 {
		return false
	}

	c.spent = max(0, c.spent+tenths)

	return true
}

// rewindable says whether the body of req can be sent again.
func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// repeatable says whether it does no harm if the server sees req twice.
func repeatable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	default:
		return req.Header.Get("Idempotency-Key") != ""
	}
}

// retryAfter reads what the server asked for: seconds, or a date.
func retryAfter(resp *http.Response) (wait time.Duration, ok bool) {
	if resp == nil {
		return 0, false
	}

	field := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(field, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}

	if at, err := http.ParseTime(field); err == nil {
		return max(0, time.Until(at)), true
	}

	return 0, false
}
