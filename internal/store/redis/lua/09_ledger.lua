-- ledger: forfeit, order, lift, settle, return, grant, answer.
local FullAgain = 10000

-- leaseID is the store's time, and a part of the seq to tell leases of one µs apart.
local function leaseID(now, seq) return (now + 1) * 4 + seq % 4 end

local function newLease(s, ask, granted, seq)
  return {
    holder = ask.holder, id = leaseID(s.now, ask.seq), granted = granted, spent = 0, debt = ask.debtAcked,
    exp = 0, due = 0, seq = seq, version = s.terms.version, takenLow = 0, takenHigh = 0,
  }
end

local function find(list, holder)
  for i = 1, #list do
    if list[i].holder == holder then return i end
  end
end

-- observe moves the ledger to now. A clock that stepped back shifts what is
-- kept by the difference, so nothing waits for the old time to come again.
local function observe(s, now)
  local back = now - s.now
  if back < 0 then
    s.tat = shift(s.tat, back)
    for _, e in ipairs(s.log) do e[1] = e[1] + back end
    for _, l in ipairs(s.old) do l.exp = l.exp + back end
    if s.ahead.start ~= 0 then
      local _, stop = span(s.terms, now)
      s.ahead.start = stop
    end
    for _, l in ipairs(s.leases) do
      opened(l).exp = l.exp + back
      l.due = 0
    end
    slotsShift(s.slots, back)
  end
  s.now = now
end

local final, forfeit
do
local FinalWithin, FinalMost = 600000000, 64

-- await remembers a lease whose time was over in its window until its final S is told. Its due says so: it is 0 of those
-- that ended with the window before.
local function await(s, l)
  if not windowed(s.terms) or l.granted == 0 or #s.old >= FinalMost then return end
  opened(l).exp, l.due = s.now + FinalWithin, s.now
  s.old[#s.old + 1] = l
end

-- correct takes what was left of a lease that has ended out of the count of the present window, or charges what is below 0.
local function correct(s, rest)
  if rest < 0 then charge(s, -rest) else credit(s, rest) end
end

-- final takes in how much was spent of a lease that has ended: with the window before, or in the present one, in which the
-- ledger may not have noticed yet.
final = function(s, ask)
  if ask.ended == 0 or not windowed(s.terms) then return end
  for i, l in ipairs(s.leases) do
    if l.holder == ask.holder and opened(l).id == ask.ended then
      correct(s, l.granted - max(l.spent, ask.endedSpent))
      table.remove(s.leases, i)
      return
    end
  end
  for i, l in ipairs(s.old) do
    if l.holder == ask.holder and l.id == ask.ended then
      local rest = l.granted - max(l.spent, ask.endedSpent)
      if s.terms.algorithm == SlidingWindow and l.due == 0 then
        s.window.prev = max(0, s.window.prev - max(0, rest))
      else
        correct(s, rest)
      end
      table.remove(s.old, i)
      return
    end
  end
end

-- forfeit drops the leases whose time is over, oldest first, each as if it were the only one.
forfeit = function(s)
  local leases, first = s.leases, s.now + 1
  for i = 1, #leases do
    if leases[i].exp < first then first = leases[i].exp end
  end
  if first > s.now then return end -- as mostly
  local ended, live, out = {}, {}, 0
  for _, l in ipairs(leases) do
    out = out + left(l)
    if l.exp <= s.now then
      ended[#ended + 1] = l
    else
      live[#live + 1] = l
    end
  end
  table.sort(ended, function(a, b) return a.exp < b.exp end) -- of those that end together the first lifts highest
  for _, l in ipairs(ended) do
    lift(s, l.exp, out)
    out = out - left(l)
    await(s, l)
  end
  s.leases = live
end
end

-- lagging returns the instant that ask tells of. A fraction of other terms rounds up.
local function lagging(s, ask)
  if ask.lagFrac < 0 or ask.lagFrac >= s.terms.q then return at(s.now - ask.lag + 1) end
  return {s.now - ask.lag, ask.lagFrac}
end

-- spend notes the holder's total. More than was granted, which a store that
-- lost a grant can hear, is charged now, and noted for whoever counts it.
local function spend(s, l, spent)
  l.spent = max(l.spent, spent)
  local over = l.spent - l.granted
  if over > 0 then
    s.over = over
    charge(s, over)
    l.granted = l.spent
  end
end

-- owe charges debt, or credits a refund when the total went down. A credit
-- counts only on a lease that the ask names.
local function owe(s, l, ask)
  local more = ask.debt - l.debt
  if more < 0 and l.id ~= ask.lease then return end
  if more > 0 then charge(s, more) else credit(s, -more) end
  l.debt = ask.debt
  -- What this window was charged or credited with is no matter of the next one.
  local i = find(s.ahead.leases, l.holder)
  if i then s.ahead.leases[i].debt = ask.debt end
end

-- cut takes back what a lease has under an older version of the rule, if more
-- is used than the newer one allows.
local function cut(s, l)
  if used(s) > s.terms.burst and left(l) > 0 then
    credit(s, left(l))
    l.granted = l.spent
  end
end

-- settle takes in what the holder spent and owes.
local function settle(s, l, ask)
  local out = s.others + left(l)
  if ask.spent > l.spent and bucket(s.terms) then
    -- The tokens occupied the bucket until they were spent: lift to what was
    -- outstanding then, which is never more than now's.
    local began = after(s, lagging(s, ask), l.granted - ask.spent + s.others)
    s.tat = timeMax(s.tat, timeMin(began, after(s, at(s.now), out)))
  else
    lift(s, s.now, out)
  end
  spend(s, l, ask.spent)
  lift(s, s.now, s.others + left(l)) -- before the debt, which would vanish in it otherwise
  owe(s, l, ask)
  lift(s, s.now, s.others + left(l))
  if l.version < s.terms.version then
    l.version = s.terms.version
    cut(s, l)
  end
end

-- giveBack takes back what the holder struck from its balance.
local function giveBack(s, l, ask)
  local r = l.granted - max(ask.raiseTo, l.spent)
  if r > 0 then
    l.granted = l.granted - r
    credit(s, r)
  end
end

-- grant gives the takes and the needs, in order, each whole or not at all, and
-- then leases up to the fair share of what is left. It returns the first cost
-- that was refused, 0 if none was.
local function grant(s, l, ask)
  local available = avail(s)
  local rest, refused = available, 0
  local low, high = 0, 0
  for i, cost in ipairs(ask.takes) do
    if i > MaxTakes or cost < 0 or cost > rest then
      if refused == 0 then refused = max(1, cost) end
    else
      rest = rest - cost
      if i <= 32 then low = low + 2^(i - 1) else high = high + 2^(i - 33) end
    end
  end
  for i, need in ipairs(ask.needs) do
    -- What an answer that was lost has granted already is not granted again.
    local cost = min(need, max(0, ask.raiseTo - l.granted))
    if i > MaxTakes or cost < 0 or cost > rest then
      if refused == 0 then refused = max(1, cost) end
    else
      rest = rest - cost
      l.granted = l.granted + cost
    end
  end
  local leased = max(0, min(ask.raiseTo - l.granted, share(s, l, rest)))
  l.granted = l.granted + leased
  l.takenLow, l.takenHigh = low, high
  consume(s, available - rest + leased)
  return refused
end

-- lives returns for how long lease l lives, which was just granted what ask is given of it.
local function lives(s, l, ask)
  local t = s.terms
  if not ask.long or t.algorithm ~= TokenBucket then return t.ttl end
  local size = floor(t.burst / (32 * #s.leases))
  if size == 0 or left(l) > size or avail(s) < floor(t.burst / 2) then return t.ttl end
  return max(t.ttl, min(16 * t.ttl, 8000000))
end

-- windowNow returns how far a window or log is used.
local function windowNow(s)
  if s.terms.algorithm == SlidingLog then
    return {left = logClear(log(s.terms), s.log, s.now), used = logUsed(s.log), prev = 0}
  end
  local _, stop = span(s.terms, s.now)
  return {left = stop - s.now, used = s.window.used, prev = s.window.prev}
end

-- answer fills in a with what lease l has now.
local function fillAnswer(s, l, a)
  a.lease, a.takenLow, a.takenHigh = l.id, l.takenLow, l.takenHigh
  a.granted, a.spent, a.debt = l.granted, l.spent, l.debt
  a.others, a.holders, a.terms, a.ttl = s.others, #s.leases, s.terms, s.terms.ttl
  if bucket(s.terms) then
    a.level = shift(timeMax(s.tat, at(s.now)), -s.now)
  else
    a.window = windowNow(s)
  end
  if windowed(s.terms) then a.ttl = min(a.ttl, a.window.left) end
  l.due = 0
  if a.short then a.askAgain = askAgain(s, l, a.others) end
  return a
end

-- inFlight applies an ask under a rule that bounds what is in flight.
local function inFlight(s, ask, stale)
  local a = {stale = stale, seq = ask.seq, terms = s.terms, ttl = s.terms.ttl}
  if not ask.slots or s.terms.algorithm ~= Concurrency then
    -- The rule has changed between slots and tokens, and the holder is yet to hear of it.
    a.short, a.askAgain = true, FullAgain
    return a
  end
  local got = slotsApply(s.slots, s.now, s.terms, ask)
  if got.superseded then return {superseded = true, seq = ask.seq} end
  a.burst = got.n
  a.granted, a.spent = got.slots, ask.spent
  a.others, a.holders, a.short = got.others, got.holders, got.short
  if a.short then a.askAgain = FullAgain end
  return a
end

-- applyAhead answers an ask for the window after the present one.
local function applyAhead(s, ask)
  local a = {seq = ask.seq, ahead = true, terms = s.terms, window = windowNow(s), holders = 1}
  a.ttl = min(s.terms.ttl, termsAfter(s.terms))
  if s.terms.algorithm ~= FixedWindow then return a end
  local _, stop = span(s.terms, s.now)
  s.ahead.start = stop -- a clock that stepped back takes the count with it
  local list = s.ahead.leases
  local i = find(list, ask.holder)
  if i and ask.seq < list[i].seq then return {superseded = true, seq = ask.seq, ahead = true} end
  if i and ask.seq > list[i].seq then
    -- It did not hear of that lease, or used it already, after a clock that stepped back: it is taken as spent.
    table.remove(list, i)
    i = nil
  end
  if not i then
    local burst = s.terms.burst
    local available = max(0, burst - s.ahead.used)
    local part = floor(floor(burst * 4 / 5) / max(#s.leases, #list + 1))
    local leased = max(0, min(ask.raiseTo, part, available, floor(burst * 4 / 5) - s.ahead.used))
    s.ahead.used = s.ahead.used + leased
    list[#list + 1] = newLease(s, ask, leased, ask.seq)
    i = #list
  end
  a.lease, a.granted, a.holders = list[i].id, list[i].granted, #list
  return a
end

-- giveBackAhead takes back what a holder that has nothing else strikes from its
-- lease of the next window, unless that was asked about later.
local function giveBackAhead(s, ask)
  local list = s.ahead.leases
  local i = find(list, ask.holder)
  local l = i and list[i]
  if not l or l.id ~= ask.lease or ask.seq <= l.seq then return end
  l.seq = ask.seq
  local r = max(0, l.granted - ask.raiseTo)
  l.granted = l.granted - r
  s.ahead.used = s.ahead.used - r
  if l.granted == 0 then table.remove(list, i) end
end

local function popcount(n)
  local c = 0
  while n > 0 do
    c = c + n % 2
    n = floor(n / 2)
  end
  return c
end

-- apply handles one ask at now, under the terms that the coordinator found, and returns the answer.
local function apply(s, now, terms, ask)
  observe(s, now)
  forfeit(s) -- under the terms that the leases were charged with
  local stale = adopt(s, terms)
  if ask.slots or s.terms.algorithm == Concurrency then return inFlight(s, ask, stale) end
  roll(s)
  final(s, ask)
  if ask.ahead then return applyAhead(s, ask) end

  local i = find(s.leases, ask.holder)
  local l = i and opened(s.leases[i])
  if l and ask.seq < l.seq then return {superseded = true, seq = ask.seq} end
  if l and ask.seq == l.seq then
    local short = l.granted < ask.raiseTo or popcount(l.takenLow) + popcount(l.takenHigh) < #ask.takes
    s.others = outstanding(s) - left(l)
    return fillAnswer(s, l, {stale = stale, seq = ask.seq, short = short})
  end
  if l and l.id ~= ask.lease then
    lift(s, s.now, outstanding(s)) -- it names another one: this one is taken as spent
    table.remove(s.leases, i)
    l = nil
  end
  if not l then
    giveBackAhead(s, ask)
    l = newLease(s, ask, 0, 0)
    i = #s.leases + 1
    s.leases[i] = l
    ask.raiseTo = ask.raiseTo - ask.spent -- an unknown lease's S is not believed
    ask.spent = 0
  end

  l.seq = ask.seq
  s.others = outstanding(s) - left(l)
  settle(s, l, ask)
  giveBack(s, l, ask)
  local refused = grant(s, l, ask)
  local ttl = lives(s, l, ask)
  l.exp = s.now + ttl + Guard

  local a = fillAnswer(s, l, {
    stale = stale, seq = ask.seq, short = refused > 0 or l.granted < ask.raiseTo,
    lease = 0, takenLow = 0, takenHigh = 0, granted = 0, spent = 0, debt = 0, others = 0, holders = 0, ttl = 0, level = false, -- of its size
  })
  if ttl > s.terms.ttl then a.ttl = ttl end
  if refused > 0 and not bucket(s.terms) then a.window.refused, a.window.wait = refused, wait(s, refused) end
  if left(l) == 0 and l.debt == ask.debt and ask.debtAcked == ask.debt and ask.raiseTo <= l.granted and not ask.keep then
    table.remove(s.leases, i) -- nothing left to remember
    a.lease, a.granted = 0, 0
  end
  return a
end
