package rulespec

// classFields are the keys of an entry of classes.
func classFields() []Field {
	return []Field{
		{Name: "class", Required: true, Value: words("test", "read", "write", "critical"), Doc: "What such requests are."},
		{
			Name: "scope", Value: either(oneOrMore(pattern("path", "^/")), mapOf(scopeFields())),
			Doc: "Which requests the entry is about, as in a rule; left out, all of them.",
		},
		{
			Name: "apikeyPrefix", Value: oneOrMore(text(2048)),
			Doc: "How their API keys begin, such as `sk_test_`; left out, the key does not matter.",
		},
		{Name: "pathCase", Value: words("sensitive", "insensitive"), Default: `"sensitive"`, Doc: "As in a rule."},
		{Name: "trailingSlash", Value: words("ignore", "strict"), Default: `"ignore"`, Doc: "As in a rule."},
	}
}

// classesText is what the page says about classes, after the table of a rule.
const classesText = `
### Classes

Every request has a class. What matters less is shed first when the system is in trouble; rules do not look at it, but for
one thing: a request of class ` + "`test`" + ` is decided by the same rules on budgets of its own, so that tests get the answers
that live traffic would get, and take nothing from it.

` + "```yaml" + `
classes:
  - {class: test, apikeyPrefix: sk_test_}
  - {class: critical, scope: {paths: /v1/charges, methods: POST}}
  - {class: read, scope: /v1/search}         # a POST that changes nothing
` + "```" + `

A caller may say in the header ` + "`Leaseway-Class`" + ` that its request matters less, never that it matters more; that does not
change whose budget it spends. Only trusted proxies are believed: what they put into the header is the class, so they must
set it or remove it. A program that calls the SDK says it in ` + "`Request.Class`" + `, and in the check API it is ` + "`class`" + ` among the attributes.

To the gRPC interceptors a trusted proxy says the address of its client, and nothing else: its ` + "`leaseway-class`" + ` lowers as a caller's
does, and its user header counts only where ` + "`identity`" + ` has it ` + "`trusted`" + ` from every peer. There ` + "`leasewaygrpc.WithClasses`" + ` and
` + "`leasewaygrpc.WithAttributes`" + ` say the class and the user.
`
