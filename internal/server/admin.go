package server

import (
	"net"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/rulestore"
)

// openAdmin makes the admin door of a coordinator, and returns who admits services and holders; nil for everybody.
func (s *server) openAdmin() (admitter, error) {
	var callers admitter
	if s.tokens != nil {
		callers = s.tokens
	}

	if s.engine.coordinator == nil {
		return callers, nil
	}

	certificates, err := s.config.certificates()
	if err != nil {
		return nil, err
	}

	config := admin.Config{Fleet: s.engine.fleet(), Callers: callers, Certificates: certificates, Logger: s.log}
	config.Store, config.Latest = s.engine.kept()

	if s.admin, err = admin.New(config); err != nil {
		return nil, err
	}

	return s.admin, nil
}

// fleet is what the admin door asks of the coordinator of this process.
func (e *engine) fleet() fleet {
	return fleet{coordinator: e.coordinator, rules: e.book.Current, feed: e.feed, notes: e.notes}
}

// openNotes makes what this coordinator tells others, and hears of them. alone says that no other counts in the same store.
func (e *engine) openNotes(alone bool) {
	e.notes = &notes{
		coordinator: e.coordinator, meter: e.meter, rules: e.book.Current, from: processName(e.incarnation), alone: alone,
		now: time.Now, log: e.log, self: func() coordinator.Instance {
			return coordinator.Instance{Name: e.name, Incarnation: e.incarnation, Version: e.limiter.Rules().Version, Seen: time.Now()}
		},
	}

	if e.ruleStore != nil {
		e.notes.board = e.ruleStore
	}
}

// kept is where the rules come from, and what was last read there.
func (e *engine) kept() (rulestore.Store, func() *rulestore.State) {
	if e.feed != nil {
		return e.ruleStore, e.feed.Latest
	}

	return e.shown, e.shown.State
}

// certificates reads AdminCertificates. The error is a *UsageError.
func (c *Config) certificates() ([]admin.Certificate, error) {
	var (
		list []admin.Certificate
		errs []error
	)

	for _, text := range c.AdminCertificates {
		name, rest, _ := strings.Cut(text, "=")
		word, prefix, scoped := strings.Cut(rest, ":")
		role := admin.Nobody

		for _, one := range []admin.Role{admin.Viewer, admin.Operator, admin.Admin} {
			if word == one.String() {
				role = one
			}
		}

		if name == "" || role == admin.Nobody || scoped && prefix == "" {
			errs = append(errs, usage("--admin-certificate %q is not NAME=ROLE: write such as deploy.example=operator, "+
				"or deploy.example=operator:search- for the rules that begin so", text))

			continue
		}

		certificate := admin.Certificate{Name: name, Role: role}
		if scoped {
			certificate.Rules = []string{prefix}
		}

		list = append(list, certificate)
	}

	if len(list) > 0 && c.TLSClientCA == "" {
		errs = append(errs, usage("--admin-certificate needs --tls-client-ca: only it says which certificates are genuine"))
	}

	return list, problems(errs...)
}

// adminListenable refuses an admin address over which tokens would travel in the clear. The door asks for them by itself: from
// other machines nobody gets in without.
func (c *Config) adminListenable() error {
	_, err := c.certificates()

	if c.AdminListen == "" {
		return err
	}

	host, _, splitErr := net.SplitHostPort(c.AdminListen)

	switch {
	case splitErr != nil:
		err = problems(err, usage("--admin-listen %q is no address: write host:port, such as 127.0.0.1:8082", c.AdminListen))
	case c.holder():
		err = problems(err, usage("--admin-listen does not go with --coordinator: the coordinators have the admin API"))
	case !loopback(host) && c.TLSCert == "" && !c.Insecure:
		err = problems(err, usage("--admin-listen %s can be reached from other machines: add --tls-cert and --tls-key, "+
			"or listen on 127.0.0.1, or send tokens in the clear with --insecure", c.AdminListen))
	}

	return err
}
