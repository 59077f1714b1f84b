package cli

import (
	"bytes"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A value in YAML is the value, whatever its texts look like.
func TestWriteYAML(t *testing.T) {
	want := map[string]any{
		"texts": []any{"plain", "0123", "true", "null", "1e3", "", " x", "a: b", "#", "two\nlines", "{", "\u00e9\u2192"}, "number": 7, "none": nil,
	}

	var out bytes.Buffer
	if err := writeYAML(&out, want); err != nil {
		t.Fatal(err)
	}

	var got map[string]any
	if err := yaml.Unmarshal(out.Bytes(), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%s", err, out.String())
	}

	if !bytes.Contains(out.Bytes(), []byte("\nnumber: 7\n")) {
		t.Errorf("not in blocks:\n%s", out.String())
	}
}
