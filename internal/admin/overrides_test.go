package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/postgres"
	"github.com/leaseway/leaseway/rule"
)

type overrides struct {
	Overrides []OverrideView
	Next      string
	Bad       []BadRow
}

// withRules has rules by user, by a part and a part, by API key, and global.
func withRules(r *rig) *rig {
	for id, body := range map[string]string{
		"user":   `{"limit": 100, "windowSec": 60, "keyBy": "user", "normalize": ["casefold"]}`,
		"pair":   `{"limit": 100, "windowSec": 60, "keyBy": ["user", "endpoint"]}`,
		"search": searchRule,
		"global": `{"limit": 100, "windowSec": 60}`,
	} {
		r.send(http.MethodPut, "/admin/rules/"+id, body).want(http.StatusOK)
	}

	return r
}

func TestAnOverrideIsSetFoundAndDeleted(t *testing.T) {
	var log bytes.Buffer

	r := withRules(newRig(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
	const path = "/admin/rules/user/overrides"

	r.send(http.MethodPut, path, `{"key": "ACME", "limit": 500, "burst": 800, "leaseTtl": "1s", "expires": "2026-02-01T00:00:00Z", "note": "contract 7"}`).
		want(http.StatusOK, `"version":5`, `"count":1`)

	// The key is the one that requests spend.
	for range 2 {
		found := read[overrides](r.send(http.MethodGet, path+"?key=Acme", "").want(http.StatusOK)).Overrides
		if len(found) != 1 || found[0].Key != "acme" || found[0].Limit != 500 || found[0].Burst != 800 || found[0].LeaseTTL != "1s" ||
			found[0].Expires != "2026-02-01T00:00:00Z" || found[0].Note != "contract 7" || found[0].Version != 5 {
			t.Fatalf("got %+v", found)
		}

		var kept overrides
		for o, err := range r.store.Overrides(t.Context(), rulestore.Query{Rule: "user", Keys: []string{"acme"}}) {
			if err != nil || o.Limit != 500 {
				t.Fatalf("%+v, %v", o, err)
			}

			kept.Overrides = append(kept.Overrides, OverrideView{})
		}

		if len(kept.Overrides) != 1 {
			t.Fatal("requests would not find it")
		}
	}

	r.send(http.MethodPut, path+"?dryRun=true", `{"key": "acme", "limit": 1}`).want(http.StatusOK, `"dryRun":true`)
	r.after(60 * 24 * time.Hour)
	r.send(http.MethodGet, path, "").want(http.StatusOK, `"limit":500`, `"expired":true`)
	r.send(http.MethodDelete, path+"?key=aCME&reason=over", "").want(http.StatusOK, `"count":1`)
	r.send(http.MethodDelete, path+"?key=acme", "").want(http.StatusOK, `"version":0`) // there need not be one
	r.send(http.MethodGet, path, "").want(http.StatusOK, `"overrides":[]`)

	if text := log.String(); strings.Count(text, "msg=changed action=overrides.delete") != 1 ||
		!strings.Contains(text, `msg="nothing to change" action=overrides.delete`) || strings.Contains(text, "version=0") {
		t.Errorf("the log says of what was deleted, and of what there was not:\n%s", text)
	}
}

// Credentials are found by those who have them, and by nobody else.
func TestAPIKeysAreStoredAsHashes(t *testing.T) {
	r := withRules(newRig(t))
	const path, key = searchPath + "/overrides", "sk_live_51HqLyjWDarjtT1zdp7dc"

	r.send(http.MethodPut, path, `{"key": "`+key+`", "limit": 500}`).want(http.StatusOK).lacks(key)
	list := r.send(http.MethodGet, path, "").want(http.StatusOK, `"secret":true`, `"hint":"sha256:`).lacks(key)
	r.send(http.MethodGet, "/admin/audit?version=5", "").want(http.StatusOK, "sha256").lacks(key)
	r.send(http.MethodGet, "/admin/overrides/export", "").want(http.StatusOK, `"keySha256":"`).lacks(key)
	r.send(http.MethodGet, path+"?key="+key, "").want(http.StatusOK, `"limit":500`).lacks(key)
	r.send(http.MethodGet, path+"?key=another", "").want(http.StatusOK, `"overrides":[]`)

	// Whoever sees it in a list can delete it, without the key.
	r.send(http.MethodDelete, path+"?id="+read[overrides](list).Overrides[0].ID, "").want(http.StatusOK, `"count":1`)
	r.send(http.MethodGet, path, "").want(http.StatusOK, `"overrides":[]`)
}

func TestABadOverrideIsRefusedWithItsField(t *testing.T) {
	r := withRules(newRig(t))

	for _, row := range []struct{ rule, body, field string }{
		{"user", `{"key": "a"}`, "body.limit"},
		{"user", `{"limit": 5}`, "body.key"},
		{"user", `{"key": "a", "keyHex": "61", "limit": 5}`, "body.key"},
		{"user", `{"keyHex": "6", "limit": 5}`, "body.keyHex"},
		{"user", `{"keySha256": "61", "limit": 5}`, "body.keySha256"},
		{"user", `{"key": "a", "limit": -5}`, "body.limit"},
		{"user", `{"key": "a", "limit": 5, "burst": -1}`, "body.burst"},
		{"user", `{"key": "a", "limit": 4503599627370496}`, ""},
		{"user", `{"key": "a", "leaseTtl": "5 minutes"}`, "body.leaseTtl"},
		{"user", `{"key": "a", "leaseTtl": "1h"}`, "body.lease"},
		{"user", `{"key": "a", "limit": 5, "expires": "tomorrow"}`, "body.expires"},
		{"user", `{"key": "a", "limit": 5, "expires": "2020-01-01T00:00:00Z"}`, "body.expires"},
		{"user", `{"key": "a", "limit": 5, "rule": "pair"}`, "body.rule"},
		{"user", `{"key": "a", "limit": 5, "nte": "typo"}`, "body.nte"},
		{"pair", `{"key": "a", "limit": 5}`, "body.key"},
		{"global", `{"key": "a", "limit": 5}`, "body.key"},
		{"none", `{"key": "a", "limit": 5}`, "body.rule"},
	} {
		r.send(http.MethodPut, "/admin/rules/"+row.rule+"/overrides", row.body).want(http.StatusUnprocessableEntity, row.field)
	}

	for _, query := range []string{"", "?key=a&id=b", "?id=%21", "?id=AA"} {
		r.send(http.MethodDelete, "/admin/rules/user/overrides"+query, "").want(http.StatusUnprocessableEntity)
	}

	r.send(http.MethodGet, "/admin/rules/user/overrides?after=nonsense", "").want(http.StatusUnprocessableEntity)
}

// A mistyped rule is no rule without overrides: a backup of them would be empty.
func TestOverridesOfNoRuleAreRefused(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)
	r.send(http.MethodGet, searchPath+"/overrides", "").want(http.StatusOK, `"overrides":[]`)
	r.send(http.MethodGet, "/admin/overrides/export?rule=search", "").want(http.StatusOK)

	for _, path := range []string{"/admin/rules/serch/overrides", "/admin/overrides/export?rule=serch"} {
		r.send(http.MethodGet, path, "").want(http.StatusNotFound, "there is no rule serch")
	}

	// Those of a deleted rule wait for it.
	r.send(http.MethodPut, searchPath+"/overrides", `{"key": "acme", "limit": 5}`).want(http.StatusOK)
	r.send(http.MethodDelete, searchPath, "").want(http.StatusOK)
	r.send(http.MethodGet, "/admin/overrides/export?rule=search", "").want(http.StatusOK, `"limit":5`)
}

func TestOverridesAreListedInPages(t *testing.T) {
	r := withRules(newRig(t))
	r.send(http.MethodPost, "/admin/overrides/import", lines(25), "Content-Type", typeJSONLines).want(http.StatusOK, `"count":25`)

	seen := map[string]bool{}

	for after, pages := "", 0; ; {
		page := read[overrides](r.send(http.MethodGet, "/admin/rules/user/overrides?limit=10&after="+url.QueryEscape(after), "").want(http.StatusOK))
		for _, one := range page.Overrides {
			seen[one.Key] = true
		}

		after = page.Next
		pages++

		if after == "" || pages == 4 {
			break
		}
	}

	if len(seen) != 25 {
		t.Errorf("got %d", len(seen))
	}
}

// lines are so many overrides of the rule by user.
func lines(n int) string {
	var b strings.Builder

	for i := range n {
		fmt.Fprintf(&b, `{"rule":"user","key":"u%d","limit":%d}`+"\n", i, 100+i)
	}

	return b.String()
}

func TestWhatIsExportedCanBeImported(t *testing.T) {
	r := withRules(newRig(t))
	in := lines(3) + `
{"rule":"user","key":"quoted, \"so\"\nand on","limit":5,"note":"=a,b"}
{"rule":"pair","key":"a\\|b|GET /v1/x","limit":5,"burst":9}
{"rule":"user","keyHex":"ff00fe","limit":7}
{"rule":"search","key":"secret-key","limit":8,"expires":"2027-01-01T00:00:00.000001Z"}
{"rule":"user","key":"` + strings.Repeat("long", 100) + `","limit":9,"leaseTtl":"250ms"}
{"rule":"user","key":"hidden","secret":true,"limit":10}
`
	r.send(http.MethodPost, "/admin/overrides/import", in, "Content-Type", typeJSONLines).want(http.StatusOK, `"count":9`)

	for format, contentType := range map[string]string{"ndjson": typeJSONLines, "csv": typeCSV} {
		out := r.send(http.MethodGet, "/admin/overrides/export?format="+format, "").want(http.StatusOK).lacks("secret-key", "hidden")
		if out.header.Get("Content-Type") != contentType {
			t.Errorf("%s: %s", format, out.header.Get("Content-Type"))
		}

		other := withRules(newRig(t))
		other.send(http.MethodPost, "/admin/overrides/import", out.body, "Content-Type", contentType).want(http.StatusOK, `"count":9`)

		if again := other.send(http.MethodGet, "/admin/overrides/export?format="+format, ""); again.body != out.body {
			t.Errorf("%s: got\n%s\nwant\n%s", format, again.body, out.body)
		}

		// The holder of a secret key, and of a long one, finds it there, too.
		other.send(http.MethodGet, searchPath+"/overrides?key=secret-key", "").want(http.StatusOK, `"limit":8`)
		other.send(http.MethodGet, "/admin/rules/user/overrides?key=hidden", "").want(http.StatusOK, `"limit":10`)
		other.send(http.MethodGet, "/admin/rules/user/overrides?key="+strings.Repeat("long", 100), "").want(http.StatusOK, `"limit":9`)
	}

	r.send(http.MethodGet, "/admin/overrides/export?rule=pair", "").want(http.StatusOK, `GET /v1/x`).lacks("u1")
}

func TestAnImportIsWholeOrNothing(t *testing.T) {
	r := withRules(newRig(t))

	for _, row := range []struct{ kind, body, line, text string }{
		{typeCSV, "rule,key,limit\nuser,x,many\n", `"line":2`, `\"many\" is no whole number`},
		{typeCSV, "rule,key,secret\nuser,x,perhaps\n", `"line":2`, `\"perhaps\" is neither true nor false`},
		{typeJSONLines, lines(2000) + `{"rule":"user","key":"x","limit":0}`, `"line":2001`, "changes nothing"},
		{typeJSONLines, lines(2) + "\n\n{broken", `"line":5`, ""},
		{typeJSONLines, `{"rule":"user","key":"x","limit":5,"lmit":6}`, `"line":1`, "lmit"},
		{typeJSONLines, `{"rule":"user","key":"x","limit":5}{"rule":"user","key":"y","limit":5}`, `"line":1`, "one override a line"},
		{typeJSONLines, `{"rule":"none","key":"x","limit":5}`, `"line":1`, "is no rule"},
		{typeJSONLines, lines(1) + strings.Repeat("x", maxLine+1), `"line":2`, "longer than"},
		{typeCSV, "rule,key,limit\nuser,a,5\nuser,b,five\n", `"line":3`, "body.limit"},
		{typeCSV, "rule,key,limit\nuser,a\n", `"line":2`, "columns"},
		{typeCSV, "rule,key,lmit\nuser,a,5\n", `"line":1`, "lmit"},
		{typeCSV, "rule,key,key\n", `"line":1`, "twice"},
		{typeCSV, "rule,key,limit\nuser,\"" + strings.Repeat("x\n", 3*maxLine), "", "longer than"},
		{typeCSV, "rule,key,limit\nuser,\"a,5\n", `"line":2`, ""},
		{typeCSV, "rule,key,limit\nuser,a,5,6\n", `"line":2`, `"line 2: body: wrong number`},
		{typeCSV, strings.Repeat("rule", maxLine), `"line":1`, "line 1: body: is longer than"},
		{typeJSONLines, `{"rule":"user","key":"x","limit":5.5}`, `"line":1`, "body.limit"},
		{typeJSONLines, `["user","x",5]`, `"line":1`, "is array, which does not belong here"},
		{typeJSONLines, lines(1) + "\uFEFF" + lines(1), `"line":2`, ""},
		{typeJSONLines, "", "", "body: has no overrides"},
		{typeJSONLines, "\uFEFF\n \r\n", "", "body: has no overrides"},
		{typeCSV, "", "", "body: has no overrides"},
		{typeCSV, "\n\n", "", "body: has no overrides"},
	} {
		for _, dry := range []string{"", "?dryRun=true"} {
			r.send(http.MethodPost, "/admin/overrides/import"+dry, row.body, "Content-Type", row.kind).
				want(http.StatusUnprocessableEntity, row.line, row.text)
		}
	}

	r.send(http.MethodGet, "/admin/rules/user/overrides", "").want(http.StatusOK, `"overrides":[]`)
	r.send(http.MethodPost, "/admin/overrides/import", lines(1), "Content-Type", "text/plain").want(http.StatusUnsupportedMediaType, typeCSV)
	r.send(http.MethodPost, "/admin/overrides/import?dryRun=true", lines(2000), "Content-Type", typeJSONLines).want(http.StatusOK, `"count":2000`)
	r.send(http.MethodGet, "/admin/rules/user/overrides", "").want(http.StatusOK, `"overrides":[]`)

	// What a spreadsheet saves begins with a mark, and its lines end as those of Windows do.
	for kind, body := range map[string]string{
		typeCSV: "rule,key,limit\r\nuser,x,5\r\nuser,y,6\r\n", typeJSONLines: strings.ReplaceAll(lines(2), "\n", "\r\n"),
	} {
		r.send(http.MethodPost, "/admin/overrides/import?dryRun=true", "\uFEFF"+body, "Content-Type", kind).want(http.StatusOK, `"count":2`)
	}

	// That there are none is said by the names of the columns alone, as an export of none has them.
	r.send(http.MethodPost, "/admin/overrides/import", "rule,key,limit\n", "Content-Type", typeCSV).want(http.StatusOK, `"version":0`)

	// Lines that name no rule are of the one that the call names; lines can delete.
	r.send(http.MethodPost, "/admin/overrides/import?rule=user", "key,limit,delete\na,5,\nb,6,\n", "Content-Type", typeCSV).want(http.StatusOK, `"count":2`)
	r.send(http.MethodPost, "/admin/overrides/import?rule=user", "key,delete\na,true\n", "Content-Type", typeCSV).want(http.StatusOK, `"count":1`)
	r.send(http.MethodGet, "/admin/rules/user/overrides", "").want(http.StatusOK, `"key":"b"`).lacks(`"key":"a"`)
}

func TestAnImportTellsHowFarItIs(t *testing.T) {
	r := withRules(newRig(t))
	progress := func(body string) (list []Progress) {
		got := r.send(http.MethodPost, "/admin/overrides/import?progress=true", body, "Content-Type", typeJSONLines).want(http.StatusOK)

		for decoder := json.NewDecoder(strings.NewReader(got.body)); decoder.More(); {
			var one Progress
			if err := decoder.Decode(&one); err != nil {
				t.Fatal(err)
			}

			list = append(list, one)
		}

		return list
	}

	list := progress(lines(25_000))
	if last := list[len(list)-1]; len(list) != 3 || list[0].Read != 10_000 || last.Done == nil || last.Done.Count != 25_000 || last.Done.Version == 0 {
		t.Errorf("got %+v", list)
	}

	list = progress(lines(10) + "{")
	if last := list[len(list)-1]; last.Problem == nil || last.Problem.Errors[0].Line != 11 || last.Done != nil {
		t.Errorf("got %+v", list)
	}
}

// Over HTTP/2, too, the answer comes while the question is still being asked.
func TestAnImportOverHTTP2(t *testing.T) {
	r := withRules(newRig(t))
	server := httptest.NewUnstartedServer(r.mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/admin/overrides/import?progress=true",
		&generated{n: 20_001})
	if err != nil {
		t.Fatal(err)
	}

	request.Header.Set("Content-Type", typeJSONLines)

	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil || response.ProtoMajor != 2 || strings.Count(string(text), "\n") != 3 || !strings.Contains(string(text), `"count":20001`) {
		t.Errorf("%s %s %v", response.Proto, text, err)
	}
}

// Whoever breaks off in the middle of an import has changed nothing.
func TestAnImportThatBreaksOffChangesNothing(t *testing.T) {
	r := withRules(newRig(t))
	reader, writer := io.Pipe()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+"/admin/overrides/import", reader)
	if err != nil {
		t.Fatal(err)
	}

	request.Header.Set("Content-Type", typeJSONLines)

	done := make(chan struct{})

	go func() {
		defer close(done)

		response, err := r.server.Client().Do(request)
		if err == nil {
			response.Body.Close()
			t.Error("there is an answer")
		}
	}()

	if _, err := io.WriteString(writer, lines(5000)); err != nil {
		t.Fatal(err)
	}

	writer.CloseWithError(errors.New("broken off"))
	<-done
	r.send(http.MethodGet, "/admin/rules/user/overrides", "").want(http.StatusOK, `"overrides":[]`)
}

// The shared store behaves alike through the API, and the memory that a large import and export take does not grow with it.
func TestManyOverridesInPostgres(t *testing.T) {
	store, err := postgres.Open(t.Context(), postgres.Config{URL: servers.Shared(t).Database(t)})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = store.Close() })

	r := newRig(t)
	r.over(store)
	withRules(r)

	const n = 50_000

	var before, after runtime.MemStats

	runtime.GC()
	runtime.ReadMemStats(&before)

	body := &generated{n: n}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+"/admin/overrides/import", body)
	if err != nil {
		t.Fatal(err)
	}

	request.Header.Set("Content-Type", typeJSONLines)

	response, err := r.server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), fmt.Sprintf(`"count":%d`, n)) {
		t.Fatalf("%d %s %v", response.StatusCode, text, err)
	}

	runtime.GC()
	runtime.ReadMemStats(&after)

	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}

	out := r.send(http.MethodGet, "/admin/overrides/export", "").want(http.StatusOK)
	if got := strings.Count(out.body, "\n"); got != n {
		t.Errorf("exported %d", got)
	}

	r.send(http.MethodPut, searchPath, searchRule, "If-Match", `"1000"`).want(http.StatusPreconditionFailed)
	r.send(http.MethodGet, "/admin/rules/user/overrides?key=u7", "").want(http.StatusOK, `"limit":107`)
}

// generated is the text of so many overrides, made as it is read.
type generated struct {
	n, i int
	rest []byte
}

func (g *generated) Read(p []byte) (int, error) {
	if len(g.rest) == 0 {
		if g.i == g.n {
			return 0, io.EOF
		}

		g.rest = fmt.Appendf(nil, `{"rule":"user","key":"u%d","limit":%d}`+"\n", g.i, 100+g.i)
		g.i++
	}

	n := copy(p, g.rest)
	g.rest = g.rest[n:]

	return n, nil
}

// Whatever somebody sends as an import, it is read or refused.
func FuzzImportLines(f *testing.F) {
	f.Add(lines(2), "rule,key,limit\nuser,a,5\n")
	f.Add("{", "rule,\"")
	f.Add(`{"rule":"user","keyHex":"ff","delete":true}`, "delete,delete\n")

	set, err := rule.Parse("test", []byte("rules: [{id: user, limit: 1, window: 1m, keyBy: user}]"))
	if err != nil {
		f.Fatal(err)
	}

	reader := overrideReader{set: set, who: &principal{role: Admin}, now: start}

	f.Fuzz(func(t *testing.T, jsonText, csvText string) {
		for _, from := range []lineReader{newJSONLines(strings.NewReader(jsonText)), newCSVLines(strings.NewReader(csvText))} {
			for {
				var line overrideLine
				if _, err := from.next(&line); err != nil {
					break
				}

				o, err := reader.read(&line.OverrideText, line.Delete)
				if err != nil || line.Delete {
					continue
				}

				// What was taken can be written and read again.
				text := textOf(&o)
				if again, err := reader.read(&text, false); err != nil || !bytes.Equal(again.StoredKey(), o.StoredKey()) || again.Limit != o.Limit {
					t.Errorf("%+v became %+v: %v", o, again, err)
				}
			}
		}
	})
}

// What reads CSV has one line end for two; a key with them in it stays the one that it is.
func TestAnExportAsCSVKeepsLineEndsOfKeys(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, "/admin/rules/r", `{"limit": 100, "windowSec": 60, "keyBy": "user"}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/rules/r/overrides", `{"key": "a\r\nb", "limit": 5}`).want(http.StatusOK)

	text := r.send(http.MethodGet, "/admin/overrides/export?format=csv", "").want(http.StatusOK).body
	r.send(http.MethodPost, "/admin/overrides/import", text, "Content-Type", typeCSV).want(http.StatusOK, `"version":0`) // as they were

	text = strings.ReplaceAll(text, ",5,", ",6,")
	r.send(http.MethodPost, "/admin/overrides/import", text, "Content-Type", typeCSV).want(http.StatusOK, `"count":1`)
	r.send(http.MethodGet, "/admin/rules/r/overrides", "").want(http.StatusOK, `"limit":6`, `"key":"a\r\nb"`).lacks(`"key":"a\nb"`)
}

// The record of an import names the rule that its caller named, who may not name another's.
func TestAnImportNamesNoRuleOfOthers(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, "/admin/rules/mine-1", `{"limit": 100, "windowSec": 60, "keyBy": "user"}`).want(http.StatusOK)
	r.token = r.createToken(`{"name": "a", "role": "admin"}`)
	r.token = r.createToken(`{"name": "b", "role": "operator", "rules": ["mine-"]}`)

	line := `{"rule": "mine-1", "key": "k", "limit": 4}`
	r.send(http.MethodPost, "/admin/overrides/import?rule=other-1", line, "Content-Type", typeJSONLines).want(http.StatusForbidden)
	r.send(http.MethodPost, "/admin/overrides/import?rule=mine-1", line, "Content-Type", typeJSONLines).want(http.StatusOK)
}
