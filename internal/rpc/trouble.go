package rpc

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Asked names the coordinators, each with why the last call to it brought nothing: "10.0.0.5:8081 (connection refused), …".
func (c *Client) Asked() string {
	said := make([]string, len(c.replicas))

	for i, r := range c.replicas {
		why := "no answer yet"
		if last := r.trouble.Load(); last != nil {
			why = inShort(*last)
		}

		said[i] = r.url + " (" + why + ")"
	}

	return strings.Join(said, ", ")
}

// callError is why a call of one coordinator failed. It says so in short, since it is logged and shown to people; what gRPC said
// is inside.
type callError struct {
	url string
	err error
}

func (e *callError) Error() string { return "rpc: coordinator " + e.url + ": " + inShort(e.err) }
func (e *callError) Unwrap() error { return e.err }

// inShort is the reason at the end of what gRPC says of a call, in words that fit into a line.
func inShort(err error) string {
	answer, ok := status.FromError(err)

	switch {
	case errors.Is(err, context.DeadlineExceeded), ok && answer.Code() == codes.DeadlineExceeded:
		return "no answer in time"
	case !ok:
		return err.Error()
	}

	text := answer.Message()
	if inner := errors.Unwrap(err); inner != nil {
		text = status.Convert(inner).Message() // without the wrapping, which names the coordinator once more
	}

	if _, inner, nested := strings.Cut(text, `desc = "`); nested {
		text = strings.TrimSuffix(inner, `"`)
	}

	text = strings.TrimPrefix(text, "transport: ")

	if _, dialing, is := strings.Cut(text, "Error while dialing: "); is {
		text = dialing
		if _, cause, of := strings.Cut(dialing, ": "); of { // of "dial tcp ADDRESS"
			text = strings.TrimPrefix(cause, "connect: ")
		}
	}

	return text
}
