package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/internal/proxycheck"
	"github.com/leaseway/leaseway/internal/rest"
)

var update = flag.Bool("update", false, "write the generated files")

// wholeAPI is what a listener has that services and people share.
func wholeAPI(t *testing.T) huma.API {
	t.Helper()

	api := rest.New(http.NewServeMux(), "0")
	check.New(nil).Register(api)
	proxycheck.Describe(api)

	door := newRig(t).door
	door.Register(api)
	door.RegisterLimits(api)

	return api
}

// routesTable is the part of docs/admin-api.md that lists the routes.
func routesTable(api huma.API) []byte {
	var b bytes.Buffer

	b.WriteString("| route | who | what |\n|---|---|---|\n")

	role := regexp.MustCompile(`Role: (.*)\.$`)
	ops := slices.SortedFunc(maps.Values(operations(api)), func(a, b *huma.Operation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	})

	for _, op := range ops {
		if who := role.FindStringSubmatch(op.Description); who != nil { // or else it is of the check door
			fmt.Fprintf(&b, "| `%s %s` | %s | %s |\n", op.Method, op.Path, who[1], op.Summary)
		}
	}

	return b.Bytes()
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	api := wholeAPI(t)

	openAPI, err := json.MarshalIndent(api.OpenAPI(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}

	const pagePath = "../../docs/admin-api.md"

	page, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}

	before, tail, found1 := bytes.Cut(page, []byte("<!-- routes:"))
	first, tail, _ := bytes.Cut(tail, []byte("\n"))
	_, after, found2 := bytes.Cut(tail, []byte("<!-- end of routes -->"))

	if !found1 || !found2 {
		t.Fatal("the page has no place for the routes")
	}

	want := slices.Concat(before, []byte("<!-- routes:"), first, []byte("\n\n"), routesTable(api), []byte("\n<!-- end of routes -->"), after)

	for path, text := range map[string][]byte{pagePath: want, "../../docs/openapi.json": append(openAPI, '\n')} {
		if *update {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}

			continue
		}

		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s is out of date (%v): run make generate and commit it", path, err)
		}
	}
}

// Generators of clients stumble over a document that does not hold together.
func TestTheOpenAPIDocumentHoldsTogether(t *testing.T) {
	api := wholeAPI(t)

	text, err := json.Marshal(api.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}

	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil || doc["openapi"] != "3.1.0" {
		t.Fatalf("%v %v", doc["openapi"], err)
	}

	refs := 0
	for _, ref := range regexp.MustCompile(`"\$ref":"#/([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		refs++

		var at any = doc
		for part := range strings.SplitSeq(ref[1], "/") {
			at, _ = at.(map[string]any)[part]
		}

		if at == nil {
			t.Errorf("%s is nowhere", ref[1])
		}
	}

	if refs == 0 {
		t.Error("the document has no parts")
	}

	for id, op := range operations(api) {
		if op.Summary == "" || strings.HasPrefix(op.Path, "/admin") && (op.Security == nil || !strings.Contains(op.Description, "Role: ")) {
			t.Errorf("%s says too little: %+v", id, op)
		}
	}
}
