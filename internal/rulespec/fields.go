package rulespec

// The bounds of the parser, restated; a test asks the parser for each.
const (
	maxTokens = "1000000000000"
	maxCost   = "1099511627776"
	maxBurst  = "2251799813685248"
	maxWindow = "366d"
)

// ruleFields are the keys of a rule, in the order in which people read one.
func ruleFields() []Field {
	return append(append(whoFields(), budgetFields()...), behaviourFields()...)
}

// whoFields say which requests a rule is about, and whose budget they spend.
func whoFields() []Field {
	return []Field{
		{
			Name: "id", Required: true, Value: Value{Type: "text", schema: object{"anyOf": list{
				object{"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}, object{"type": "integer", "minimum": 0},
			}}},
			Doc: "The rule's identity, in metrics, answers and the store: 1 to 64 letters, digits, dots, underscores or hyphens. Its budgets follow the id, whatever else changes.",
		},
		{Name: "description", Value: text(4096), Doc: "For people."},
		{
			Name: "scope", Value: either(oneOrMore(pattern("path", "^/")), mapOf(scopeFields())),
			Doc: "Which requests the rule is about; left out, all of them. `scope: /v1/search` is short for `scope: {paths: [/v1/search]}`. What is named must all agree.",
		},
		{Name: "pathCase", Value: words("sensitive", "insensitive"), Default: `"sensitive"`, Doc: "Whether `/A` and `/a` are two paths."},
		{Name: "trailingSlash", Value: words("ignore", "strict"), Default: `"ignore"`, Doc: "Whether `/a` and `/a/` are two paths."},
		{
			Name: "keyBy", Default: `"global"`,
			Value: oneOrMore(pattern("part of a key", `^(user|ip|apikey|endpoint|global|header:[!#$%&'*+.^_|~0-9A-Za-z`+"`"+`-]+|descriptor:.+)$`)),
			Doc: "Whose budget is spent: `user`, `ip`, `apikey`, `endpoint` (method and matched pattern), `global` (one budget for all), `header:NAME`, `descriptor:NAME`, " +
				"or a list of up to 8, of which each combination has a budget of its own.",
		},
		{
			Name: "normalize", Value: oneOrMore(words("trim", "casefold", "nfc")),
			Doc: "Which spellings of a user, key, header or descriptor are the same: without white space around it, in either letter case, in either form of Unicode.",
		},
		{Name: "ipv6Prefix", Value: whole("1", "128"), Default: "64", Doc: "How many bits of an IPv6 address make a key: a caller usually owns a whole network."},
		{Name: "missing", Value: words("skip", "shared", "deny"), Default: `"skip"`, Doc: "What happens to a request without a part of the key: the rule leaves it alone, all such requests share one budget, or it is refused."},
		{Name: "secret", Value: boolean(), Default: "false", Doc: "Never show, log or store the key in clear."},
	}
}

// scopeFields are the keys of a scope.
func scopeFields() []Field {
	return []Field{
		{
			Name: "paths", Value: oneOrMore(pattern("path", "^/")),
			Doc: "`/v1/search` is that path, `/v1/{name}` has one free segment, `/v1/**` is `/v1` and all below it. Paths are compared as the upstream sees them: escapes, dots and doubled slashes are resolved.",
		},
		{Name: "methods", Value: oneOrMore(pattern("method", `^[!#$%&'*+.^_|~0-9A-Za-z`+"`"+`-]+$`)), Doc: "HTTP methods, in either letter case."},
		{Name: "hosts", Value: oneOrMore(text(253)), Doc: "Names without a port, or `*.example.com` for the names below it."},
		{Name: "headers", Value: named(), Doc: "Each of these headers must have one of its values."},
		{Name: "descriptors", Value: named(), Doc: "The same for descriptors, which doors without HTTP know."},
		{Name: "domain", Value: text(256), Doc: "The domain that a proxy sent the descriptor for."},
		{
			Name: "entries", Value: Value{Type: "list of maps", Fields: entryFields(), schema: object{
				"type": "array", "minItems": 1, "maxItems": 8, "items": object{"anyOf": list{text(256).schema, mapSchema(entryFields())}},
			}},
			Doc: "A proxy's descriptor as a whole, in its order: one with more entries, or in another order, does not agree. An entry of which only the name matters may be that name alone.",
		},
	}
}

// entryFields are the keys of an entry.
func entryFields() []Field {
	return []Field{
		{Name: "key", Required: true, Value: text(256), Doc: "The entry's name."},
		{Name: "value", Value: oneOrMore(text(2048)), Doc: "The values that agree; one that ends in `*` stands for all that begin so. Left out, any does."},
		{Name: "except", Value: oneOrMore(text(2048)), Doc: "Values that do not, written the same way."},
	}
}

// budgetFields say how much there is to spend.
func budgetFields() []Field {
	return []Field{
		{
			Name: "algorithm", Value: words("token_bucket", "fixed_window", "sliding_window", "sliding_log", "leaky_bucket", "concurrency"), Default: `"token_bucket"`,
			Doc: "How the budget refills. `concurrency` bounds how many requests are in flight at a time, and has no window.",
		},
		{Name: "limit", Value: whole("1", maxTokens).with(object{"minimum": 0}), Doc: "Tokens a window, or requests in flight; required unless `block: true`. A `sliding_log` stores each admission, so its limit is at most 10000."},
		{
			Name: "window", Value: Value{Type: "span of time, or `1mo`", Low: "1ms", High: maxWindow, schema: object{"type": "string", "pattern": "^(" + spanPattern + "|1mo)$"}},
			Doc: "The time in which `limit` tokens come back; required unless `block: true` or `algorithm: concurrency`. `1d` is 86400 seconds unless there is a `timeZone`; `1mo` is a month of the calendar, for a `fixed_window` only.",
		},
		{Name: "windowSec", Value: whole("1", "31622400"), Doc: "The window in seconds, instead of `window`."},
		{
			Name: "timeZone", Value: pattern("name of the IANA database", "^[A-Z][A-Za-z0-9._/+-]*$"),
			Doc: "Makes the window `1d` of a `fixed_window` the day of this zone, of 23 to 25 hours where clocks are changed. A window of `1mo` has UTC unless it says another.",
		},
		{Name: "burst", Value: whole("1", maxBurst), Doc: "The capacity of a `token_bucket`, or how many requests wait in a `leaky_bucket`; left out, it is the limit. A window admits its limit, and has no burst."},
		{Name: "cost", Value: either(whole("1", maxCost), pattern("`header:NAME`", "^header:.+$")), Default: "1", Doc: "What one request takes, in tokens, or the header that says it: a whole number, else the request takes 1."},
		{
			Name: "queue", Value: mapOf(queueFields()),
			Doc: "Only with `algorithm: concurrency`: who finds no room may wait until another request is over. Left out, nobody waits.",
		},
		{Name: "block", Value: boolean(), Default: "false", Doc: "Refuse every request in scope, without a time to come back. Such a rule has no limit and no burst."},
		{Name: "overrides", Value: mapsOf(overrideFields()), Doc: "Negotiated limits, by key."},
	}
}

// queueFields are the keys of a queue.
func queueFields() []Field {
	return []Field{
		{
			Name: "size", Required: true, Value: whole("1", "10000"),
			Doc: "How many requests of a key may wait on one server. They are served in the order of their classes, `critical` first, and within one as they came.",
		},
		{Name: "wait", Required: true, Value: span("1ms", "10m"), Doc: "The longest that a request waits before it is refused. One whose client goes away leaves at once."},
	}
}

// overrideFields are the keys of an override.
func overrideFields() []Field {
	return []Field{
		{
			Name: "key", Required: true, Value: Value{Type: "text, or a list with one text for each part of keyBy", schema: object{"anyOf": list{
				text(4096).schema, object{"type": "array", "items": text(4096).schema, "minItems": 1, "maxItems": 8},
			}}},
			Doc: "Whose limit this is, as `keyBy` finds it.",
		},
		{Name: "limit", Value: whole("1", maxTokens), Doc: "Instead of the rule's."},
		{Name: "window", Value: span("1ms", maxWindow), Doc: "Instead of the rule's; not where the rule has a calendar."},
		{Name: "windowSec", Value: whole("1", "31622400"), Doc: "The window in seconds."},
		{Name: "burst", Value: whole("1", maxBurst), Doc: "Instead of the rule's; left out beside a limit, it is that limit."},
		{Name: "lease", Value: mapOf(leaseFields()), Doc: "Instead of the rule's."},
	}
}

// leaseFields are the keys of lease.
func leaseFields() []Field {
	return []Field{{Name: "ttl", Value: span("10ms", "10m"), Default: `"500ms"`, Doc: "How long a server may spend a lease before it must ask again. It does not loosen the limit: it trades calls against tokens that a crash strands. A [small part](how-it-works.md#how-large-leases-are) of a bucket that has plenty may be leased for sixteen times as long, up to 8 s. With `algorithm: concurrency` it is how long the slots of a server that falls silent stay taken: `10s` unless it says otherwise, at least `1s`."}}
}

// behaviourFields say what a rule does with what it decides.
func behaviourFields() []Field {
	return []Field{
		{Name: "mode", Value: words("enforce", "shadow", "off"), Default: `"enforce"`, Doc: "`shadow` decides, counts and reports, and never refuses; `off` matches nothing."},
		{
			Name: "onUnavailable", Value: words("local", "allow", "deny"), Default: `"local"`,
			Doc: "While no coordinator can be reached: decide from a bucket of this server alone, let everything pass, or refuse with 503.",
		},
		{Name: "fallback", Value: mapOf(fallbackFields()), Doc: "The bucket of one server alone; left out, 0.8 of the limit divided by the live servers. Only with `onUnavailable: local`. It is a token bucket, whatever the algorithm."},
		{Name: "lease", Value: mapOf(leaseFields()), Doc: "How tokens are handed out to servers."},
		{Name: "slack", Value: whole("0", maxTokens), Default: "0", Doc: "Tokens that each server may admit of a key it knows nothing of, without waiting for an answer. They are charged afterwards, so a key can pass its limit by this much for each server."},
		{
			Name: "rollout", Default: "100",
			Value: Value{Type: "number with two decimals at most", Low: "0", High: "100", schema: object{"type": "number", "minimum": 0, "maximum": 100}},
			Doc:   "The percentage of keys that have the rule as written. To raise it only adds keys. The others have what `before` says; without that the rule does not apply to them.",
		},
		{Name: "before", Value: mapOf(beforeFields()), Doc: "What the keys have that the rollout has not reached."},
		{Name: "afterLoss", Value: words("caution", "full"), Default: `"caution"`, Doc: "What a budget is that nothing was heard of since the store lost its data: taken as spent when that happened, or whole."},
		{Name: "version", Value: whole("0", "9223372036854775807"), Default: "0", Doc: "Written by Leaseway; leave it out."},
	}
}

// fallbackFields are the keys of a fallback.
func fallbackFields() []Field {
	return []Field{
		{Name: "limit", Required: true, Value: whole("1", maxTokens), Doc: "Tokens a window, on each server."},
		{Name: "window", Value: span("1ms", maxWindow), Doc: "Required, or windowSec."},
		{Name: "windowSec", Value: whole("1", "31622400"), Doc: "The window in seconds."},
		{Name: "burst", Value: whole("1", maxBurst), Doc: "The capacity; left out, it is the limit."},
	}
}

// identityFields are the keys of identity.
func identityFields() []Field {
	header := `^[!#$%&'*+.^_|~0-9A-Za-z` + "`" + `-]+$`
	return []Field{
		{
			Name: "apikey", Default: `["X-API-Key", "bearer"]`, Value: Value{
				Type: "name of a header, or `bearer`, or a list", schema: object{"anyOf": list{
					object{"type": "string", "pattern": header}, object{"type": "array", "items": object{"type": "string", "pattern": header}, "maxItems": 8},
				}},
			},
			Doc: "Where an API key may be, in order: a header, or the bearer token of `Authorization`.",
		},
		{Name: "user", Value: mapOf([]Field{
			{Name: "header", Required: true, Value: pattern("name of a header", header), Doc: "The header that names the user."},
			{Name: "trusted", Value: boolean(), Default: "false", Doc: "Believe it from every peer, not only from trusted proxies. The gRPC interceptors believe it only so."},
		}), Doc: "Where the user is named; left out, nowhere."},
	}
}
