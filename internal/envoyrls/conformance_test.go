package envoyrls

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/envoyimport"
	"github.com/leaseway/leaseway/rule"
)

// suite is a file of testdata: rules, and requests to them in order. The clock begins at midnight, UTC.
type suite struct {
	Charge Charge      `yaml:"charge"`
	Rules  yaml.Node   `yaml:"rules"`
	Import string      `yaml:"import"` // a document of envoyproxy/ratelimit that gives the rules instead
	Cases  []suiteCase `yaml:"cases"`
}

// suiteCase is a request, how often it is sent after a pause, and what the last response must say. Lists must agree as a whole,
// maps in what is written; "*" is any text.
type suiteCase struct {
	Name    string        `yaml:"name"`
	After   time.Duration `yaml:"after"`
	Times   int           `yaml:"times"`
	Request any           `yaml:"request"` // as JSON of a RateLimitRequest
	Expect  any           `yaml:"expect"`  // as JSON of a RateLimitResponse, with headers as a map, and body instead of rawBody
	Error   string        `yaml:"error"`   // a gRPC code instead
}

func TestConformance(t *testing.T) {
	files, err := filepath.Glob("testdata/conformance/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no suites: %v", err)
	}

	cases := 0

	for _, file := range files {
		s := readSuite(t, file)
		cases += len(s.Cases)

		t.Run(filepath.Base(file), func(t *testing.T) { synctest.Test(t, s.run) })
	}

	if cases < 40 {
		t.Errorf("%d cases, want 40 at least", cases)
	}
}

func readSuite(t *testing.T, file string) (s suite) {
	t.Helper()

	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, &s)
	}

	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}

	return s
}

// run sends the suite's requests to a door of its own.
func (s *suite) run(t *testing.T) {
	door := newDoor(t, s.document(t), s.Charge)

	for _, c := range s.Cases {
		time.Sleep(c.After)

		var (
			got any
			err error
		)

		for range max(1, c.Times) {
			got, err = send(t, door, c.Request)
		}

		switch code := status.Code(err); {
		case c.Error != "":
			if codeName(code) != c.Error {
				t.Errorf("%s: got %v, %v, want the error %s", c.Name, got, err, c.Error)
			}
		case err != nil:
			t.Errorf("%s: %v", c.Name, err)
		default:
			if different := differs("", got, normal(t, c.Expect)); different != "" {
				t.Errorf("%s: %s\n%v", c.Name, different, got)
			}
		}
	}
}

// document is the suite's rules.
func (s *suite) document(t *testing.T) string {
	t.Helper()

	if s.Import != "" {
		document, _, err := envoyimport.Import("suite", []byte(s.Import))
		if err != nil {
			t.Fatal(err)
		}

		return string(document)
	}

	text, err := yaml.Marshal(map[string]any{"rules": &s.Rules})
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

func newDoor(tb testing.TB, document string, charge Charge) *Door {
	tb.Helper()

	set, err := rule.Parse("rules", []byte(document))
	if err != nil {
		tb.Fatal(err)
	}

	limiter, err := leaseway.Embedded(set)
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() { _ = limiter.Close(context.Background()) })

	return New(limiter, Config{Charge: charge})
}

// ask sends a request in wire form through the door's own reading and writing.
func ask(door *Door, message []byte) (*rlsv3.RateLimitResponse, error) {
	var response *rlsv3.RateLimitResponse

	_, err := door.handle(nil, context.Background(), func(v any) error {
		c, _ := v.(*call)

		return c.Hear(message)
	}, func(ctx context.Context, _ any, _ *grpcInfo, next grpcHandler) (any, error) {
		answer, err := next(ctx, nil)
		if err != nil {
			return nil, err
		}

		c, _ := answer.(*call)
		response = &rlsv3.RateLimitResponse{}
		err = proto.Unmarshal(c.Wire(), response)
		c.Sent()

		return answer, err
	})

	return response, err
}

// send sends a request that is written as JSON, and gives the response as JSON would read it.
func send(t *testing.T, door *Door, request any) (any, error) {
	t.Helper()

	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}

	var msg rlsv3.RateLimitRequest
	if err := protojson.Unmarshal(text, &msg); err != nil {
		t.Fatalf("%s: %v", text, err)
	}

	wire, err := proto.Marshal(&msg)
	if err != nil {
		t.Fatal(err)
	}

	response, err := ask(door, wire)
	if err != nil {
		return nil, err
	}

	return readable(t, response), nil
}

// readable is a response as suites write it.
func readable(t *testing.T, response *rlsv3.RateLimitResponse) any {
	t.Helper()

	headers := map[string]any{}
	for _, h := range response.GetResponseHeadersToAdd() {
		headers[h.GetKey()] = h.GetValue()
	}

	body := response.GetRawBody()
	response.ResponseHeadersToAdd, response.RawBody = nil, nil

	text, err := protojson.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}

	got, _ := normal(t, json.RawMessage(text)).(map[string]any)
	got["headers"] = headers

	if len(body) > 0 {
		got["body"] = normal(t, json.RawMessage(body))
	}

	return got
}

// normal is v as JSON reads it.
func normal(t *testing.T, v any) (out any) {
	t.Helper()

	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}

	if err != nil {
		t.Fatal(err)
	}

	return out
}

// differs says where got is not what is wanted; "" for nowhere.
func differs(place string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want %v", place, got, want)
		}

		for name := range want {
			if different := differs(place+"."+name, m[name], want[name]); different != "" {
				return different
			}
		}

		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%s is %v, want %v", place, got, want)
		}

		for i := range want {
			if different := differs(fmt.Sprintf("%s[%d]", place, i), list[i], want[i]); different != "" {
				return different
			}
		}

		return ""
	}

	if text, ok := got.(string); want == "*" && ok && text != "" || reflect.DeepEqual(got, want) {
		return ""
	}

	return fmt.Sprintf("%s is %v, want %v", place, got, want)
}

// codeName is a gRPC code as specifications write it.
func codeName(code codes.Code) string {
	for name, known := range map[string]codes.Code{
		"OK": codes.OK, "INVALID_ARGUMENT": codes.InvalidArgument, "DEADLINE_EXCEEDED": codes.DeadlineExceeded, "UNAVAILABLE": codes.Unavailable,
	} {
		if code == known {
			return name
		}
	}

	return code.String()
}
