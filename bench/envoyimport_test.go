package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	envoylimiter "github.com/envoyproxy/ratelimit/src/limiter"
	envoyredis "github.com/envoyproxy/ratelimit/src/redis"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/envoyimport"
	"github.com/leaseway/leaseway/internal/envoyrls"
	"github.com/leaseway/leaseway/rule"
)

// What the importer makes of a document gives the answers that envoyproxy/ratelimit itself gives: its own loader and its own limiter,
// over a map in the place of Redis, are asked the same in the same order at the same times.
func TestImportedLimitsAnswerAsEnvoysDo(t *testing.T) {
	const documents, requests = 60, 120

	compared, limited, refused := 0, 0, 0

	for seed := range uint64(documents) {
		random := rand.New(rand.NewPCG(seed, 1))
		text := randomDocument(random)

		theirs, theirError := newTheirs(text)
		imported, _, ourError := envoyimport.Import("limits.yaml", []byte(text))

		switch {
		case ourError != nil && theirError == nil && !deliberate(ourError):
			t.Errorf("seed %d: %v, which envoyproxy/ratelimit takes\n%s", seed, ourError, text)
		case ourError == nil && theirError != nil:
			t.Errorf("seed %d: envoyproxy/ratelimit says %v\n%s", seed, theirError, text)
		case ourError != nil || theirError != nil:
			continue
		}

		compared++

		synctest.Test(t, func(t *testing.T) {
			our := newOurs(t, imported)

			for n := range requests {
				time.Sleep(randomPause(random))

				request := randomRequest(random)
				want, got := theirs.answer(request), our.answer(t, request)

				for i, status := range want {
					if status.GetCurrentLimit() != nil {
						limited++
					}

					if status.GetCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
						refused++
					}

					if differs := differs(status, got[i], theirs.shadow[i]); differs != "" {
						t.Fatalf("seed %d, request %d: %s\n%v\ngot  %v\nwant %v\n%s\n%s", seed, n, differs, request, got[i], status, text, imported)
					}
				}
			}
		})
	}

	if compared < documents/2 || limited < documents*requests/20 || refused < documents*requests/100 {
		t.Errorf("only %d documents, %d limits and %d refusals were compared", compared, limited, refused)
	}
}

// deliberate says whether the importer refuses what no rule can say, or what is a trap there.
func deliberate(err error) bool {
	for _, reason := range []string{"twice on the way down", "no requests_per_unit", "beside no rate_limit", "stands for many keys"} {
		if strings.Contains(err.Error(), reason) {
			return true
		}
	}

	return false
}

// differs says in what our status is another than theirs. Of a limit in shadow mode only the code is compared: here it is no
// limit at all. What is left is said while anything is.
func differs(want, got *rlsv3.RateLimitResponse_DescriptorStatus, shadow bool) string {
	switch {
	case want.GetCode() != got.GetCode():
		return "the code"
	case shadow || want.GetCurrentLimit().GetRequestsPerUnit() == 0: // nothing, or a limit of 0
		return ""
	case want.GetCurrentLimit().GetRequestsPerUnit() != got.GetCurrentLimit().GetRequestsPerUnit(),
		want.GetCurrentLimit().GetUnit() != got.GetCurrentLimit().GetUnit(), got.GetCurrentLimit().GetUnitMultiplier().GetValue() > 1:
		return "the limit"
	case want.GetLimitRemaining() != got.GetLimitRemaining():
		return "what is left"
	case want.GetDurationUntilReset().AsDuration() != got.GetDurationUntilReset().AsDuration():
		return "the time until the window ends"
	default:
		return ""
	}
}

// theirs is envoyproxy/ratelimit.
type theirs struct {
	config config.RateLimitConfig
	cache  envoylimiter.RateLimitCache
	shadow []bool // of the last request's descriptors
}

func newTheirs(text string) (t *theirs, err error) {
	defer func() {
		if cause := recover(); cause != nil { // how the loader says that it does not take a document
			err = fmt.Errorf("%v", cause)
		}
	}()

	manager := stats.NewStatManager(gostats.NewStore(gostats.NewNullSink(), false), settings.Settings{})
	load := []config.RateLimitConfigToLoad{{Name: "limits.yaml", ConfigYaml: config.ConfigFileContentToYaml("limits.yaml", text)}}

	return &theirs{
		config: config.NewRateLimitConfigImpl(load, manager, false),
		cache:  envoyredis.NewFixedRateLimitCacheImpl(counters{}, nil, wallClock{}, nil, 0, nil, 0.8, "", manager, false),
	}, nil
}

// answer is what its service does, without what it counts and logs.
func (t *theirs) answer(request *rlsv3.RateLimitRequest) []*rlsv3.RateLimitResponse_DescriptorStatus {
	limits := make([]*config.RateLimit, len(request.GetDescriptors()))
	t.shadow = make([]bool, len(limits))

	for i, descriptor := range request.GetDescriptors() {
		limits[i] = t.config.GetLimit(context.Background(), request.GetDomain(), descriptor)
		if limits[i] != nil && limits[i].Unlimited {
			limits[i] = nil
		}

		t.shadow[i] = limits[i] != nil && limits[i].ShadowMode
	}

	return t.cache.DoLimit(context.Background(), request, limits)
}

// wallClock is the bubble's.
type wallClock struct{}

func (wallClock) UnixNow() int64 { return time.Now().Unix() }

// counters is as much of Redis as its limiter uses. Windows are in the keys, so that none needs to expire.
type counters map[string]uint64

//nolint:revive // as its limiter calls it
func (c counters) PipeAppend(pipeline envoyredis.Pipeline, receiver any, command, key string, args ...any) envoyredis.Pipeline {
	if command == "INCRBY" {
		n, _ := args[0].(uint64)
		c[key] += n

		if into, ok := receiver.(*uint64); ok {
			*into = c[key]
		}
	}

	return pipeline
}

func (counters) DoCmd(any, string, string, ...any) error { return errors.ErrUnsupported }
func (counters) PipeDo(envoyredis.Pipeline) error        { return nil }
func (counters) Close() error                            { return nil }
func (counters) NumActiveConns() int                     { return 0 }

// our is Leaseway's door, without a network.
type our struct{ handler grpc.MethodHandler }

// RegisterService keeps the handler of ShouldRateLimit.
func (o *our) RegisterService(desc *grpc.ServiceDesc, _ any) {
	if desc.ServiceName == rlsv3.RateLimitService_ServiceDesc.ServiceName {
		o.handler = desc.Methods[0].Handler
	}
}

func newOurs(t *testing.T, document []byte) *our {
	t.Helper()

	set, err := rule.Parse("rules.yaml", document)
	if err != nil {
		t.Fatal(err)
	}

	l, err := leaseway.Embedded(set)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = l.Close(context.Background()) })

	o := &our{}
	envoyrls.New(l, envoyrls.Config{Charge: envoyrls.ChargeAll}).Register(o)

	return o
}

func (o *our) answer(t *testing.T, request *rlsv3.RateLimitRequest) []*rlsv3.RateLimitResponse_DescriptorStatus {
	t.Helper()

	wire, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}

	answer, err := o.handler(nil, t.Context(), func(message any) error {
		hearing, _ := message.(interface{ Hear(message []byte) error })

		return hearing.Hear(wire)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}

	said, _ := answer.(interface{ Wire() []byte })

	var response rlsv3.RateLimitResponse
	if err := proto.Unmarshal(said.Wire(), &response); err != nil {
		t.Fatal(err)
	}

	return response.GetStatuses()
}

// randomDocument is a document of a few keys and values that often overlap.
func randomDocument(random *rand.Rand) string {
	var b strings.Builder

	b.WriteString("domain: edge\ndescriptors:\n")
	randomLevel(random, &b, "  ", 1)

	return b.String()
}

func randomLevel(random *rand.Rand, b *strings.Builder, indent string, depth int) {
	keys, values := []string{"a", "b"}, []string{"", "", "x", "xy", "xyz", "y", "x*", "xy*", "*"}
	seen := map[string]bool{}

	for range 1 + random.IntN(5) {
		key, value := keys[random.IntN(len(keys))], values[random.IntN(len(values))]
		if seen[key+value] && random.IntN(20) > 0 {
			continue
		}

		seen[key+value] = true

		fmt.Fprintf(b, "%s- key: %s\n", indent, key)

		if value != "" {
			fmt.Fprintf(b, "%s  value: %q\n", indent, value)
		}

		limited := random.IntN(4) > 0
		if limited {
			units := []string{"second", "minute", "hour", "day", "week", "month", "year", "SECOND"}

			if random.IntN(10) == 0 {
				fmt.Fprintf(b, "%s  rate_limit: {unlimited: true}\n", indent)
			} else {
				fmt.Fprintf(b, "%s  rate_limit: {unit: %s, requests_per_unit: %d}\n", indent, units[random.IntN(len(units))], random.IntN(5))
			}

			if random.IntN(8) == 0 {
				fmt.Fprintf(b, "%s  shadow_mode: true\n", indent)
			}
		}

		if wild := strings.HasSuffix(value, "*"); wild && random.IntN(2) == 0 || random.IntN(60) == 0 {
			fmt.Fprintf(b, "%s  share_threshold: true\n", indent)
		}

		if depth < 3 && random.IntN(3) == 0 {
			fmt.Fprintf(b, "%s  descriptors:\n", indent)
			randomLevel(random, b, indent+"    ", depth+1)
		}
	}
}

func randomRequest(random *rand.Rand) *rlsv3.RateLimitRequest {
	request := &rlsv3.RateLimitRequest{Domain: "edge"}
	keys, values := []string{"a", "b"}, []string{"", "x", "xy", "xyz", "xyzz", "y", "z"}

	if random.IntN(30) == 0 {
		request.Domain = "other"
	}

	for range 1 + random.IntN(2) {
		descriptor := &commonv3.RateLimitDescriptor{}
		for range 1 + random.IntN(3)*random.IntN(2) {
			descriptor.Entries = append(descriptor.Entries,
				&commonv3.RateLimitDescriptor_Entry{Key: keys[random.IntN(len(keys))], Value: values[random.IntN(len(values))]})
		}

		request.Descriptors = append(request.Descriptors, descriptor)
	}

	// A descriptor that brings its limit, always the same one: there all limits of a descriptor and a unit share a budget.
	if random.IntN(8) == 0 {
		n := random.IntN(4)
		request.Descriptors = append(request.Descriptors, &commonv3.RateLimitDescriptor{
			Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "own", Value: strconv.Itoa(n)}, {Key: "a", Value: "x"}},
			Limit:   &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(n), Unit: typev3.RateLimitUnit(1 + n)},
		})
	}

	return request
}

// randomPause is none, mostly, or lets windows end; whole seconds, as their limiter counts.
func randomPause(random *rand.Rand) time.Duration {
	switch random.IntN(60) {
	case 0, 1:
		return time.Duration(random.IntN(5)) * time.Second
	case 2, 3:
		return time.Duration(random.IntN(90)) * time.Second
	case 4:
		return time.Duration(random.IntN(90)) * time.Minute
	default:
		return 0
	}
}
