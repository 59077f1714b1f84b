// Package adapters shows the middleware in four routers for Go. Each function is all that is needed; copy the one you use.
//
// All of them hand leasewayhttp the plain http.Handler that it wraps, so status, fields and body are the same everywhere. It is a
// module of its own, so that no router is a dependency of Leaseway.
package adapters

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/leaseway/leaseway/leasewayhttp"
)

// NetHTTP limits everything that a mux serves.
func NetHTTP(limits *leasewayhttp.Middleware, mux *http.ServeMux) http.Handler {
	return limits.Handler(mux)
}

// Chi limits a router: its middlewares are of the same kind.
func Chi(limits *leasewayhttp.Middleware, router chi.Router) {
	router.Use(limits.Handler)
}

// Gin limits an engine. What is refused never comes to the handlers; what is written goes through gin's writer, which they share.
func Gin(limits *leasewayhttp.Middleware, engine *gin.Engine) {
	engine.Use(func(c *gin.Context) {
		passed := false

		limits.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed, c.Request = true, r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)

		if !passed {
			c.Abort()
		}
	})
}

// Echo limits a server, before its router has looked for a handler. Errors of handlers go on to echo, which answers them.
func Echo(limits *leasewayhttp.Middleware, server *echo.Echo) {
	server.Pre(echo.WrapMiddleware(limits.Handler))
}
