package rpc

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
)

// domain is who gives the reasons of ErrorInfo.
const domain = "leaseway"

// The reasons of ErrorInfo: what a program can tell apart where codes are the same.
const (
	reasonPanic       = "PANIC"
	reasonCoordinator = "COORDINATOR_FAILED"
	reasonStopping    = "STOPPING"
	reasonToken       = "TOKEN"
	reasonUnknownRule = "UNKNOWN_RULE"
)

// fault is what is wrong with one field of a request.
type fault struct{ field, problem string }

// status returns the fault as INVALID_ARGUMENT with a BadRequest that names the field.
func (f *fault) status() error {
	return withDetail(status.New(codes.InvalidArgument, f.field+" "+f.problem), &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: f.field, Description: f.problem}},
	})
}

// because returns a status with a reason for programs.
func because(code codes.Code, reason, message string) error {
	return withDetail(status.New(code, message), &errdetails.ErrorInfo{Reason: reason, Domain: domain})
}

func withDetail(s *status.Status, detail protoadapt.MessageV1) error {
	if detailed, err := s.WithDetails(detail); err == nil {
		s = detailed
	}

	return s.Err()
}
