package table

import "github.com/leaseway/leaseway/rule"

// Test returns the rule with the budgets of requests of class test: the same
// limits, and for each key another ledger. It is made when it is first needed,
// since few rules ever see such requests.
func (r *Rule) Test() *Rule {
	if r.testing {
		return r
	}

	if test := r.test.Load(); test != nil {
		return test
	}

	t := r.table

	t.mu.Lock()
	defer t.mu.Unlock()

	if r.test.Load() == nil {
		test := t.newRule(r.id)
		test.testing = true
		test.follow(r.now.Load())
		test.retired.Store(r.retired.Load())
		test.switchOff(r.off.Load())
		r.test.Store(test)
	}

	return r.test.Load()
}

// ledgerKey returns the key of the ledger of one of the rule's keys, which tells test mode apart.
func (r *Rule) ledgerKey(key string) string {
	if r.testing {
		return rule.TestKey(key)
	}

	return key
}

// each calls do for the rule, and for its test mode if it has any.
func (r *Rule) each(do func(r *Rule)) {
	do(r)

	if test := r.test.Load(); test != nil {
		do(test)
	}
}
