package deploy

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	// The messages that the configurations name.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/leaseway/leaseway/rule"
)

// Envoy is not run here: its configurations are what its own messages take, fields and bounds, in whatever they hold.
func TestEnvoyConfigurationsAreEnvoys(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("envoy/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}

	for _, file := range files {
		bootstrap := bootstrapOf(t, file)
		if err := bootstrap.ValidateAll(); err != nil {
			t.Errorf("%s: %v", file, err)
		}

		if n := validate(t, file, bootstrap.ProtoReflect()); n < 5 {
			t.Errorf("%s: only %d messages of extensions were looked at", file, n)
		}

		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		checkRules(t, file, string(text))
	}
}

// The sample gives refusals for the system's state the status that the metadata of answers say.
func TestEnvoyGivesRefusalsTheirStatus(t *testing.T) {
	t.Parallel()

	var manager hcmv3.HttpConnectionManager

	packed := bootstrapOf(t, "envoy/ratelimit.yaml").GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig()
	if err := packed.UnmarshalTo(&manager); err != nil {
		t.Fatal(err)
	}

	for _, mapper := range manager.GetLocalReplyConfig().GetMappers() {
		filter := mapper.GetFilter().GetMetadataFilter()
		matcher := filter.GetMatcher()

		if matcher.GetFilter() == "envoy.filters.http.ratelimit" && len(matcher.GetPath()) == 1 && matcher.GetPath()[0].GetKey() == "status" &&
			matcher.GetValue().GetStringMatch().GetExact() == "503" && mapper.GetStatusCode().GetValue() == http.StatusServiceUnavailable &&
			filter.GetMatchIfKeyNotFound() != nil && !filter.GetMatchIfKeyNotFound().GetValue() {
			return
		}
	}

	t.Errorf("no mapper of %v does", manager.GetLocalReplyConfig())
}

// bootstrapOf reads a configuration.
func bootstrapOf(t *testing.T, file string) *bootstrapv3.Bootstrap {
	t.Helper()

	var tree any

	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, &tree)
	}

	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}

	asJSON, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}

	bootstrap := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(asJSON, bootstrap); err != nil {
		t.Fatalf("%s: %v", file, err)
	}

	return bootstrap
}

// validate checks the messages inside of others, which are packed, and counts them.
func validate(t *testing.T, file string, m protoreflect.Message) (n int) {
	t.Helper()

	if packed, ok := m.Interface().(*anypb.Any); ok {
		inner, err := packed.UnmarshalNew()
		if err != nil {
			t.Errorf("%s: %v", file, err)

			return 0
		}

		if v, ok := inner.(interface{ ValidateAll() error }); ok {
			if err := v.ValidateAll(); err != nil {
				t.Errorf("%s: %s: %v", file, proto.MessageName(inner), err)
			}
		}

		return 1 + validate(t, file, inner.ProtoReflect())
	}

	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				n += validate(t, file, v.Message())

				return true
			})
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				n += validate(t, file, value.List().Get(i).Message())
			}
		case !field.IsMap() && !field.IsList() && field.Message() != nil:
			n += validate(t, file, value.Message())
		}

		return true
	})

	return n
}

// checkRules reads the rules in the comment at a configuration's head.
func checkRules(t *testing.T, file, text string) {
	t.Helper()

	var document strings.Builder

	document.WriteString("rules:\n")

	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "#   - "); ok {
			document.WriteString("  - " + rest)
		}
	}

	if set, err := rule.Parse(file, []byte(document.String())); err != nil || len(set.Rules) != 2 {
		t.Errorf("%s: the rules of its comment: %v\n%s", file, err, document.String())
	}
}
