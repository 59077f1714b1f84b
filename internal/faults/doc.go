// Package faults breaks what a fleet stands on, for real, and holds Leaseway to
// what it promises then. It has nothing but tests: coordinators and holders are
// processes, which are killed and stopped; between them is a network that is
// slow, silent or cut (toxiproxy), or a relay that loses and doubles answers.
//
//	holders (SDK) ──▶ link: latency, resets, silence ──▶ leaseway serve, a process
//	      │       └─▶ relay: lost, doubled, foreign answers ──▶      ▲
//	      └─ or a process of their own ── SIGSTOP, SIGKILL ──────────┘
//
// Each test asserts the same things: no window of any length admits more than
// burst + rate × its length, but for the exception that the test is about, within its
// bound; answers are what the rule's onUnavailable says; no request waits beyond its
// deadline by more than this machine's timers are late, which is measured beside it;
// nothing piles up while it lasts; and it ends when its cause does.
//
//	what fails                        shown by
//	coordinator unreachable           TestCoordinatorUnreachable, TestHoldersAreBackSoon, TestHoldersAreBackSoonAfterACrash
//	store unreachable                 TestStoreUnreachable
//	some coordinators unreachable     TestSomeCoordinatorsUnreachable
//	coordinator slow                  TestCoordinatorSlow: latency, bandwidth, timeout, reset_peer, slow_close, stopped
//	one slow node, many keys          TestStoreUnreachable, TestRedisNodeSlow: latency, timeout, reset_peer
//	start while it is down            TestServerStartsWithoutCoordinator
//	the store loses its data          TestStoreLosesItsData
//	a Redis master killed             TestRedisMasterKilled
//	a Redis cluster operated          TestRedisOperated: flushed, paused, failed over, resharded
//	memory stores of their own        TestHoldersRefuseToMixStores, TestStoreLosesItsData for the snapshot
//	a bug in the limiter              TestBugInTheLimiter
//	bad rule, rules that are gone     TestRulesGoBad
//	answers lost, doubled, late       TestAnswersLostDoubledLateAndForeign
//	a holder held up, or killed       TestHolderPausedPastItsLease, TestAStarvedServerKeepsTheLimit, TestHolderKilled
//	requests in flight meanwhile      TestSlotsOfAServerThatIsCutOff, TestSlotsOfAServerThatIsKilled, TestSlotsOfAServerThatStartsAgain
//	the store comes back older        TestStoreComesBackOlder, TestALeaseThatEndsInAnOutageIsNotLost
//	membership that shrinks to one    TestNobodyTakesItselfForTheOnlyOne, TestLimitIsOfTheFleet
//
// What needs no network is tested where it belongs: overload and ten thousand
// holders that come back at once in rpc, panics in the SDK in table. The package's
// neighbours are all others: it stands above them and imports what a user would.
package faults
