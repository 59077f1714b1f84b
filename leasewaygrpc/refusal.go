package leasewaygrpc

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/phrase"
	"github.com/leaseway/leaseway/rule"
)

// Domain is that of the ErrorInfo of refusals. Its reason is the decision's in capitals, such as OVER_LIMIT; its metadata are rule,
// limit and remaining.
const Domain = "leaseway"

// trailerPushback tells clients of gRPC with a retry policy when to try again, in milliseconds; -1 is never.
const trailerPushback = "grpc-retry-pushback-ms"

// retryAfter is how long a refused caller is told to wait; 0 when waiting does not help.
func retryAfter(d *leaseway.Decision) time.Duration {
	if d.RetryAfter <= 0 && StatusCode(*d) == codes.Unavailable {
		return time.Second // nobody knows when, but a client that is told nothing comes back at once
	}
	return max(0, d.RetryAfter)
}

// pushback is the trailer of a refusal; none for a call that was not refused.
func pushback(d *leaseway.Decision) metadata.MD {
	if d.Allowed || d.Reason == leaseway.ReasonNone {
		return nil
	}
	wait := retryAfter(d)
	if wait == 0 {
		return metadata.Pairs(trailerPushback, "-1")
	}
	// Rounded up: a millisecond early is refused again.
	return metadata.Pairs(trailerPushback, strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10))
}

// Refusal is what the interceptors answer a refused call with, for doors that answer calls by themselves: its status, with ErrorInfo
// and where they apply RetryInfo, QuotaFailure and Help, and its trailer. An allowed decision has OK and no trailer.
func (l *Limits) Refusal(d leaseway.Decision) (*status.Status, metadata.MD) {
	if d.Allowed {
		return status.New(codes.OK, ""), nil
	}
	return l.refusal(&d), pushback(&d)
}

// refusal is the status of a refused call. It names rules and never keys, some of which are secret.
func (l *Limits) refusal(d *leaseway.Decision) *status.Status {
	message := describe(d, l.isMonthly(d.Rule))
	info := &errdetails.ErrorInfo{Reason: strings.ToUpper(d.Reason.String()), Domain: Domain}
	details := []protoadapt.MessageV1{info}
	if d.Rule != "" {
		info.Metadata = map[string]string{
			"rule": d.Rule, "limit": strconv.FormatInt(d.Limit, 10), "remaining": strconv.FormatInt(d.Remaining, 10),
		}
	}
	if wait := retryAfter(d); wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	switch d.Reason {
	case leaseway.ReasonUnavailable, leaseway.ReasonShedWorker, leaseway.ReasonShedFleet, leaseway.ReasonInvalid:
	default:
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: "rule:" + d.Rule, Description: message,
		}}})
	}
	if l.config.docs != "" {
		link := &errdetails.Help_Link{Description: "The limits of this API", Url: l.config.docs}
		details = append(details, &errdetails.Help{Links: []*errdetails.Help_Link{link}})
	}
	s := status.New(StatusCode(*d), message)
	if detailed, err := s.WithDetails(details...); err == nil { // they always marshal
		s = detailed
	}
	return s
}

// isMonthly says whether the windows of a rule are months; a decision only has their nominal length.
func (l *Limits) isMonthly(id string) bool {
	set := l.limiter.Rules()
	if set == nil {
		return false
	}
	r := set.Rule(id)
	return r != nil && r.Calendar == rule.CalendarMonth
}

// describe says in a sentence why a call was refused. The windows of its rule are months if monthly, whatever their length.
func describe(d *leaseway.Decision, monthly bool) string {
	switch d.Reason {
	case leaseway.ReasonTooManyInFlight:
		return fmt.Sprintf("rule %q allows %s in flight, and there are as many: send fewer in parallel", d.Rule, calls(d.Quota))
	case leaseway.ReasonCostExceedsLimit:
		return fmt.Sprintf("the call costs more than the %d tokens that rule %q holds: split it", d.Limit, d.Rule)
	case leaseway.ReasonBlocked:
		return fmt.Sprintf("rule %q blocks this caller", d.Rule)
	case leaseway.ReasonMissingKey:
		return fmt.Sprintf("rule %q needs to know who is calling, and the call does not say: send the credential", d.Rule)
	case leaseway.ReasonUnavailable:
		return fmt.Sprintf("rule %q cannot be checked at the moment: try again later", d.Rule)
	case leaseway.ReasonShedWorker:
		return fmt.Sprintf("the server is busy, and serves what matters more than a %v first: try again later", d.Class)
	case leaseway.ReasonShedFleet:
		return fmt.Sprintf("all servers together are busy, and what they have left is kept for critical calls, not for a %v: "+
			"try again later", d.Class)
	case leaseway.ReasonInvalid:
		return "the call cannot be counted: its cost is not a number of tokens"
	default:
		return describeOverLimit(d, monthly)
	}
}

func describeOverLimit(d *leaseway.Decision, monthly bool) string {
	every := "a month"
	if !monthly {
		every = string(phrase.AppendEvery(nil, d.Window))
	}
	text := fmt.Sprintf("rule %q allows %s %s", d.Rule, calls(d.Quota), every)
	if d.Limit != d.Quota {
		text += fmt.Sprintf(", and at most %d at once", d.Limit)
	}
	switch {
	case d.Remaining > 0: // the call costs more than one
		text += fmt.Sprintf("; the call costs more than what is left, which is %d", d.Remaining)
	case d.Quota == 1 && d.Limit == 1:
		text += "; it is used up"
	default:
		text += "; they are used up"
	}
	if wait := retryAfter(d); wait > 0 {
		text += ": try again in " + string(phrase.AppendSpan(nil, rounded(wait)))
	}
	return text
}

// calls says how many.
func calls(n int64) string {
	if n == 1 {
		return "1 call"
	}
	return strconv.FormatInt(n, 10) + " calls"
}

// rounded is a wait as a sentence says it, in whole seconds or milliseconds, and never too short. RetryInfo has it exactly.
func rounded(wait time.Duration) time.Duration {
	unit := time.Second
	if wait < unit {
		unit = time.Millisecond
	}
	return (wait + unit - 1).Truncate(unit)
}
