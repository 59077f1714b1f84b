// Package arch holds the shape of this module as tests: which package may
// import which, what the pure packages may touch, what the SDK may link, and
// the house rules that a compiler does not check. It has no code of its own and
// nothing imports it.
//
// The floors, from the top; an import goes down or stays on its floor:
//
//	assembly   cmd/leaseway, internal/cli, internal/server, internal/demo,
//	           internal/cases, internal/plots
//	doors      leasewayhttp, internal/check, internal/accesslog
//	SDK        leaseway (the root)
//	engine     internal/table, internal/coordinator, internal/store/..., internal/rpc,
//	           internal/rulestore/...
//	pure       rule, internal/rulespec, internal/rate, internal/ledger, internal/holder
//	wire       gen/...
//
// The table itself is in floors_test.go: a new package is one line there.
package arch
