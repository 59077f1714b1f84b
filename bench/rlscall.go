package main

import (
	"bytes"
	"fmt"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// rlsCall is a call with the n-th of some requests, and what its answer must be.
type rlsCall struct {
	method string
	wire   [][]byte
	check  func(request, answer []byte) error // of the first answers, thoroughly
	like   func(request, answer []byte) bool  // of all others
}

func rlsRequest(n int64) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{{
		Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "remote_address", Value: fmt.Sprintf("10.0.%d.%d", n%rlsKeys/256, n%256)}},
	}}}
}

// statusCall expects no more of the answer than the status.
func statusCall() rlsCall {
	return rlsCall{
		method: rlsv3.RateLimitService_ShouldRateLimit_FullMethodName,
		wire:   rlsWire(),
		check: func(_, answer []byte) error {
			_, err := readStatus(answer)

			return err
		},
		like: isOK,
	}
}

// fullCall expects header fields and metadata, too.
func fullCall() rlsCall {
	call := statusCall()
	call.check = func(_, answer []byte) error {
		response, err := readStatus(answer)
		if err == nil && (len(response.GetResponseHeadersToAdd()) < 5 || response.GetDynamicMetadata() == nil) {
			err = fmt.Errorf("the answer says too little: %v", response)
		}

		return err
	}

	return call
}

// isOK looks at how the answer begins.
func isOK(_, answer []byte) bool {
	return bytes.HasPrefix(answer, []byte{1 << 3, byte(rlsv3.RateLimitResponse_OK)})
}

func readStatus(answer []byte) (*rlsv3.RateLimitResponse, error) {
	response := &rlsv3.RateLimitResponse{}
	if err := proto.Unmarshal(answer, response); err != nil {
		return nil, err
	}

	statuses := response.GetStatuses()
	if response.GetOverallCode() != rlsv3.RateLimitResponse_OK || len(statuses) != 1 || statuses[0].GetCurrentLimit() == nil {
		return nil, fmt.Errorf("the answer is not as it should be: %v", response)
	}

	return response, nil
}

// echoCall has a request sent back, within the one field of a BytesValue.
func echoCall() rlsCall {
	call := rlsCall{method: echoMethod, wire: rlsWire(), like: bytes.Equal}
	for i, request := range call.wire {
		call.wire[i] = append([]byte{1<<3 | 2, byte(len(request))}, request...) // all of them are short
	}

	call.check = func(request, answer []byte) error {
		if !bytes.Equal(request, answer) {
			return fmt.Errorf("%x came back as %x", request, answer)
		}

		return nil
	}

	return call
}

// rlsWire are the requests of all addresses as they are sent.
func rlsWire() [][]byte {
	all := make([][]byte, rlsKeys)
	for n := range all {
		all[n], _ = proto.Marshal(rlsRequest(int64(n))) // it has all that it needs
	}

	return all
}
