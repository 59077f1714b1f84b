package adapters_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/examples/adapters"
	"github.com/leaseway/leaseway/leasewayhttp"
	"github.com/leaseway/leaseway/rule"
)

// A window so long that nothing comes back, and a rule of what is in flight, which has to see each request end.
const rules = `
rules:
  - {id: per-key, scope: /things, keyBy: apikey, limit: 2, window: 1h}
  - {id: in-flight, scope: /fails, keyBy: apikey, algorithm: concurrency, limit: 1}
`

// servers are the four, each with /things, which echoes, and /fails, whose handler fails.
func servers(limits *leasewayhttp.Middleware) map[string]http.Handler {
	things := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	fails := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "failed", http.StatusTeapot) }

	mux := http.NewServeMux()
	mux.HandleFunc("/things", things)
	mux.HandleFunc("/fails", fails)

	router := chi.NewRouter()
	adapters.Chi(limits, router)
	router.HandleFunc("/things", things)
	router.HandleFunc("/fails", fails)

	gin.SetMode(gin.ReleaseMode)

	engine := gin.New()
	adapters.Gin(limits, engine)
	engine.POST("/things", func(c *gin.Context) { things(c.Writer, c.Request) })
	engine.POST("/fails", func(c *gin.Context) { c.String(http.StatusTeapot, "failed") })

	server := echo.New()
	adapters.Echo(limits, server)
	server.POST("/things", func(c echo.Context) error {
		things(c.Response(), c.Request())

		return nil
	})
	server.POST("/fails", func(echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "failed") })

	return map[string]http.Handler{"net/http": adapters.NetHTTP(limits, mux), "chi": router, "gin": engine, "echo": server}
}

func TestAllAnswerAlike(t *testing.T) {
	for _, name := range []string{"net/http", "chi", "gin", "echo"} {
		t.Run(name, func(t *testing.T) {
			set, err := rule.Parse("rules.yaml", []byte(rules))
			if err != nil {
				t.Fatal(err)
			}

			limiter, err := leaseway.Embedded(set)
			if err != nil {
				t.Fatal(err)
			}

			t.Cleanup(func() { _ = limiter.Close(context.Background()) })

			handler := servers(leasewayhttp.New(limiter))[name]
			send := func(path string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("body"))
				r.Header.Set("X-Api-Key", "k")

				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)

				return w
			}

			for range 2 {
				w := send("/things")
				if w.Code != http.StatusOK || w.Body.String() != "body" || w.Header().Get("Ratelimit") == "" {
					t.Errorf("allowed: status %d, body %q, fields %v", w.Code, w.Body, w.Header())
				}
			}

			w := send("/things")

			var problem struct {
				Rule string `json:"rule"`
			}

			err = json.Unmarshal(w.Body.Bytes(), &problem)
			if err != nil || w.Code != http.StatusTooManyRequests || problem.Rule != "per-key" || w.Header().Get("Retry-After") == "" {
				t.Errorf("refused: status %d, body %q, fields %v", w.Code, w.Body, w.Header())
			}

			// Each slot comes back, whatever the handler answers.
			for range 2 {
				if w := send("/fails"); w.Code != http.StatusTeapot {
					t.Errorf("a handler's own status became %d: %s", w.Code, w.Body)
				}
			}
		})
	}
}
