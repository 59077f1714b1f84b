-- The arithmetic of package rate, in doubles: every value is an integer below
-- 2^53, so that nothing is rounded, and floor(a / b) of such integers is exact.
local floor, ceil, min, max, pack, unpack

-- bind makes Lua's own functions known to those below. A library is loaded
-- without them, and sees them only when it is called.
local function bind()
  floor, ceil, min, max, pack, unpack = math.floor, math.ceil, math.min, math.max, struct.pack, struct.unpack
end

-- An instant, as rate.Time: whole µs and 1/q µs, in that order.
local function at(micros) return {micros, 0} end

local function less(t, u) return t[1] < u[1] or t[1] == u[1] and t[2] < u[2] end

local function timeMax(t, u) if less(t, u) then return u end return t end

local function timeMin(t, u) if less(u, t) then return u end return t end

local function shift(t, micros) return {t[1] + micros, t[2]} end
-- rate.Bucket: b has p, q and burst. Terms are buckets.
local MaxProduct = 2^51

local function bucketAdd(b, t, n)
  local units = t[2] + n * b.p
  local micros = floor(units / b.q)
  return {t[1] + micros, units - micros * b.q}
end

-- units returns the level at now in 1/q µs; nil if it is over the burst.
local function units(b, now, tat)
  if not less(at(now), tat) then return 0 end
  if less(bucketAdd(b, at(now), b.burst), tat) then return nil end
  return (tat[1] - now) * b.q + tat[2]
end

local function bucketAvail(b, now, tat)
  local used = units(b, now, tat)
  if not used then return 0 end
  return floor((b.burst * b.p - used) / b.p)
end

local function bucketWait(b, now, tat, n)
  if n > b.burst then return -1 end
  local t = bucketAdd(b, tat, n - b.burst)
  local micros = t[1]
  if t[2] > 0 then micros = micros + 1 end
  return max(0, micros - now)
end

-- mulDivUp returns ⌈a × b / c⌉ for a < c, bit by bit of b: the product itself
-- would not fit. It is only needed when a rule changes.
local function mulDivUp(a, b, c)
  local quotient, rest = 0, 0
  local bit = 2^52
  while bit >= 1 do
    quotient, rest = 2 * quotient, 2 * rest
    if b >= bit then
      b = b - bit
      rest = rest + a
    end
    while rest >= c do
      quotient, rest = quotient + 1, rest - c
    end
    bit = bit / 2
  end
  if rest > 0 then quotient = quotient + 1 end
  return quotient
end

local function rebase(b, now, tat, old)
  if not less(at(now), tat) then return at(min(now, tat[1])) end
  if b.p == old.p and b.q == old.q then return tat end
  local micros = min(tat[1] - now, floor(2^53 / old.q))
  local level = micros * old.q + tat[2]
  local whole = floor(level / old.p)
  local part = level - whole * old.p
  whole = min(whole, floor(MaxProduct / b.p))
  local total = whole * b.p + mulDivUp(part, b.p, old.p)
  local spent = floor(total / b.q)
  return {now + spent, total - spent * b.q}
end
-- rate.Window and rate.Sliding. A window w has start, used and prev.
local function aligned(now, length)
  local start = floor(now / length) * length
  return start, start + length
end

local function windowRoll(w, start, stop)
  local length = stop - start
  if start == w.start then
    return w
  elseif start < w.start and w.start <= stop then
    -- Back over one edge: prev is what the window itself has used already.
    return {start = start, used = max(w.used, w.prev), prev = w.prev}
  elseif start < w.start then
    return {start = start, used = w.used, prev = w.prev}
  elseif 2 * (start - w.start) < 3 * length then
    return {start = start, used = 0, prev = w.used}
  end
  return {start = start, used = 0, prev = 0}
end

-- bounded returns a count that can be weighed at all.
local function bounded(n) return max(0, min(n, MaxProduct)) end

-- slidingUnits returns the unit of time (µs) in which a count of prev can be
-- weighed, and the window's length in it, rounded up.
local function slidingUnits(s, prev)
  local most = floor((2^53 - 1) / (prev + 1))
  local unit, length = 1, s.length
  while length > most do
    unit = unit * 10
    length = floor((s.length + unit - 1) / unit)
  end
  return unit, length
end

local function slidingAvail(s, w, elapsed)
  local prev = bounded(w.prev)
  local unit, length = slidingUnits(s, prev)
  local gone = max(0, min(floor(elapsed / unit), length))
  return max(0, s.limit - w.used - floor((prev * (length - gone) + length - 1) / length))
end

-- slidingUntil returns the first elapsed µs at which prev tokens weigh at most free.
local function slidingUntil(s, prev, free)
  if prev <= free then return 0 end
  local unit, length = slidingUnits(s, prev)
  local gone = length - floor(free * length / prev)
  return min(gone * unit, s.length)
end

local function slidingWait(s, w, elapsed, n)
  if n > s.limit then return -1 end
  if slidingAvail(s, w, elapsed) >= n then return 0 end
  local free = s.limit - n - w.used
  if free >= 0 then return slidingUntil(s, bounded(w.prev), free) - elapsed end
  return s.length - elapsed + slidingUntil(s, bounded(w.used), s.limit - n)
end

local function slidingClear(s, w, elapsed)
  if w.used > 0 then return 2 * s.length - elapsed end
  if w.prev > 0 then return s.length - elapsed end
  return 0
end
-- rate.Log: entries are {at, n}, oldest first; l has limit and length.
local function logUsed(entries)
  local n = 0
  for _, e in ipairs(entries) do n = n + e[2] end
  return n
end

local function logAdd(entries, now, n)
  if n <= 0 then return end
  local i = #entries
  while i > 0 and entries[i][1] > now do i = i - 1 end
  if i > 0 and entries[i][1] == now then
    entries[i][2] = entries[i][2] + n
  else
    table.insert(entries, i + 1, {now, n})
  end
end

-- logPrune returns the entries that still count at now. What a clock that
-- stepped back left in the future counts as of now.
local function logPrune(l, entries, now)
  local later = 0
  while #entries > 0 and entries[#entries][1] > now do
    later = later + entries[#entries][2]
    entries[#entries] = nil
  end
  logAdd(entries, now, later)
  local kept = {}
  for _, e in ipairs(entries) do
    if e[1] > now - l.length then kept[#kept + 1] = e end
  end
  return kept
end

-- logRemove takes n tokens out, the newest first.
local function logRemove(entries, n)
  while n > 0 and #entries > 0 do
    local last = entries[#entries]
    local part = min(n, last[2])
    last[2], n = last[2] - part, n - part
    if last[2] == 0 then entries[#entries] = nil end
  end
end

local function logWait(l, entries, now, n)
  if n > l.limit then return -1 end
  local over = logUsed(entries) + n - l.limit
  for _, e in ipairs(entries) do
    if over <= 0 then break end
    over = over - e[2]
    if over <= 0 then return max(0, e[1] + l.length - now) end
  end
  return 0
end

local function logClear(l, entries, now)
  if #entries == 0 then return 0 end
  return max(0, entries[#entries][1] + l.length - now)
end
-- ledger.Terms. Algorithms have the numbers of rate.Algorithm.
local TokenBucket, FixedWindow, SlidingWindow, SlidingLog, LeakyBucket, Concurrency = 0, 1, 2, 3, 4, 5

-- The zero Terms, of a ledger that nothing was asked of.
local function noTerms()
  return {
    algorithm = 0, p = 0, q = 0, burst = 0, length = 0, version = 0, revision = 0, ttl = 0, share = 0, whole = false,
    calendarStart = 0, calendarEnd = 0, calendarNext = 0,
  }
end

-- span returns the edges of the window that now is in.
local function span(t, now)
  if t.calendarEnd == 0 then return aligned(now, max(1, t.length)) end
  if now < t.calendarEnd then return t.calendarStart, t.calendarEnd end
  return t.calendarEnd, t.calendarNext
end

-- after returns the length of the window after the present one.
local function termsAfter(t)
  if t.calendarEnd ~= 0 then return t.calendarNext - t.calendarEnd end
  return t.length
end

local function sliding(t) return {limit = t.burst, length = max(1, t.length)} end

local function log(t) return {limit = t.burst, length = t.length} end

local function bucket(t) return t.algorithm == TokenBucket or t.algorithm == LeakyBucket end

local function windowed(t) return t.algorithm == FixedWindow or t.algorithm == SlidingWindow end

local function leases(t) return t.algorithm <= SlidingWindow end

-- edges reports whether a window under u that is not over at now ends as it does under t.
local function edges(t, u, now)
  if t.version == u.version then return true end
  local start, stop = span(t, now)
  local oldStart, oldStop = span(u, now)
  return now >= oldStop or start == oldStart and stop == oldStop
end

-- counts reports whether budgets under t and u count alike at now, whatever their limits.
local function counts(t, u, now)
  if bucket(t) or bucket(u) then return bucket(t) and bucket(u) end
  return t.algorithm == u.algorithm and t.length == u.length and edges(t, u, now)
end

local function older(t, u)
  return t.version < u.version or t.version == u.version and t.revision < u.revision
end
-- Package slots: h has holder, name, slots, exp, seq, version, offer and fate.
local Own, Displaced, Shared = 0, 1, 2
local SlotsGuard, Linger, MaxHoldings, MaxNeeds = 50000, 2000000, 4096, 64
local Follow, Unlimited, MaxOffer = 5000000, 2^40, 1000000000
local NoName = '\0\0\0\0\0\0\0\0'

local function slotsTotal(s)
  local n = 0
  for _, h in ipairs(s.holdings) do n = n + h.slots end
  return n
end

local function slotsExpire(s, now)
  local live = {}
  for _, h in ipairs(s.holdings) do
    if h.exp > now then live[#live + 1] = h end
  end
  s.holdings = live
end

local function slotsShift(s, d)
  for _, h in ipairs(s.holdings) do h.exp = h.exp + d end
  s.at = s.at + d
end

local function slotsEnds(s)
  local ends = 0
  for _, h in ipairs(s.holdings) do ends = max(ends, h.exp) end
  return ends
end

local function slotsAnswer(s, i, n, ask)
  local a = {n = n, slots = s.holdings[i].slots, others = 0, holders = 0}
  for j, h in ipairs(s.holdings) do
    if j ~= i then a.others = a.others + h.slots end
    if h.slots > 0 then a.holders = a.holders + 1 end
  end
  local used = ask.spent
  for _, need in ipairs(ask.needs) do used = used + need end
  a.short = a.slots < used
  return a
end

-- slotsLimit returns n at now, which under terms with a share follows the offers.
local function slotsLimit(s, now, terms)
  if terms.share == 0 then return terms.burst end
  local sum = 0
  for _, h in ipairs(s.holdings) do sum = sum + min(h.offer, MaxOffer) end
  local aim = sum * terms.share * 10 -- thousandths of a percentage
  local gone = max(0, now - s.at)
  if s.sum == 0 or gone >= Follow then
    s.sum, s.at = aim, now
  else
    -- A step that rounds to nothing waits until it does not: asks may come faster than that.
    local step = (aim - s.sum) * gone / Follow
    step = step < 0 and ceil(step) or floor(step)
    if step ~= 0 or s.sum == aim then s.sum, s.at = s.sum + step, now end
  end
  if math.abs(aim - s.sum) < 1000 then s.sum = aim end
  if sum == 0 then return Unlimited end
  return max(1, floor(s.sum / 1000))
end

-- slotsOpen makes a holding, and displaces those of its name: a process that
-- starts again cannot tell what it had in flight before.
local function slotsOpen(s, ask)
  local fate = Own
  for _, h in ipairs(s.holdings) do
    if ask.name ~= NoName and h.name == ask.name then
      if h.fate == Shared then
        fate = Shared
      else
        h.slots, h.offer, h.fate = 0, 0, Displaced
      end
    end
  end
  s.holdings[#s.holdings + 1] = {
    holder = ask.holder, name = ask.name, slots = 0, exp = 0, seq = 0, version = 0, offer = 0, fate = fate,
  }
  return #s.holdings
end

-- slotsAhead is how much of left one holder may have without need.
local function slotsAhead(s, i, left)
  local others = 0
  for j, h in ipairs(s.holdings) do
    if j ~= i and h.slots > 0 then others = others + 1 end
  end
  if others == 0 then return left end
  return floor(left / (others + 2))
end

-- slotsSize returns how many slots holding i has after the ask.
local function slotsSize(s, now, i, n, ask)
  local had = s.holdings[i].slots
  local others = slotsTotal(s) - had
  local room = n - others
  if now < s.closed then room = 0 end
  local kept = max(ask.spent, min(had, ask.raiseTo))
  local used = ask.spent
  for j = 1, min(#ask.needs, MaxNeeds) do
    local need = ask.needs[j]
    if need >= 0 and used + need <= room then used = used + need end
  end
  kept = max(kept, used)
  local more = min(ask.raiseTo - kept, slotsAhead(s, i, room - kept), floor(n * 4 / 5) - others - kept)
  return kept + max(0, more)
end

local function slotsApply(s, now, terms, ask)
  slotsExpire(s, now)
  local i
  for j, h in ipairs(s.holdings) do
    if h.holder == ask.holder then i = j break end
  end
  if i and ask.seq < s.holdings[i].seq then
    return {superseded = true}
  elseif i and ask.seq == s.holdings[i].seq then
    return slotsAnswer(s, i, slotsLimit(s, now, terms), ask)
  elseif not i and #s.holdings >= MaxHoldings then
    return {n = slotsLimit(s, now, terms), slots = 0, others = slotsTotal(s), holders = MaxHoldings, short = true}
  elseif not i then
    i = slotsOpen(s, ask)
  end
  local h = s.holdings[i]
  if h.fate == Displaced then
    -- It lives after all, so two holders share the name, and neither may displace.
    for _, other in ipairs(s.holdings) do
      if other.name == h.name then other.fate = Shared end
    end
  end
  h.offer = ask.offer
  local n = slotsLimit(s, now, terms)
  h.slots = slotsSize(s, now, i, n, ask)
  h.seq, h.name, h.version = ask.seq, ask.name, terms.version
  h.exp = max(h.exp, now + terms.ttl + SlotsGuard)
  if h.slots == 0 and h.offer == 0 and h.fate == Own then h.exp = now + Linger end
  return slotsAnswer(s, i, n, ask)
end
-- ledger: where the algorithms differ. A state s has tat, window, log, now,
-- terms, leases, old, ahead, slots and others, as ledger.State. It must have
-- been brought to its now: see roll.
local Guard, MaxTakes = 50000, 64

local function noWindow() return {start = 0, used = 0, prev = 0} end

local function noAhead() return {start = 0, used = 0, leases = {}} end

local function noSlots() return {holdings = {}, closed = 0, sum = 0, at = 0} end

local function newState(terms)
  return {
    tat = at(0), window = noWindow(), log = {}, now = 0, terms = terms,
    leases = {}, old = {}, ahead = noAhead(), slots = noSlots(), others = 0,
  }
end

local function avail(s)
  local t = s.terms
  if t.algorithm == FixedWindow then return max(0, t.burst - s.window.used) end
  if t.algorithm == SlidingWindow then return slidingAvail(sliding(t), s.window, s.now - s.window.start) end
  if t.algorithm == SlidingLog then return max(0, t.burst - logUsed(s.log)) end
  if t.algorithm == Concurrency then return max(0, t.burst - slotsTotal(s.slots)) end
  return bucketAvail(t, s.now, s.tat)
end

-- wait returns the µs until n tokens are to be had if nothing more is used, -1 for never.
local function wait(s, n)
  local t = s.terms
  if t.algorithm == FixedWindow then
    if n > t.burst then return -1 end
    if n <= avail(s) then return 0 end
    local _, stop = span(t, s.now)
    return stop - s.now
  end
  if t.algorithm == SlidingWindow then return slidingWait(sliding(t), s.window, s.now - s.window.start, n) end
  if t.algorithm == SlidingLog then return logWait(log(t), s.log, s.now, n) end
  if t.algorithm == Concurrency then return -1 end
  return bucketWait(t, s.now, s.tat, n)
end

-- after returns t moved by the time of n tokens, for n of any size.
local function after(s, t, n)
  local burst = s.terms.burst
  return bucketAdd(s.terms, t, max(-burst, min(n, burst)))
end

-- consume takes n tokens that are there.
local function consume(s, n)
  if bucket(s.terms) then
    s.tat = bucketAdd(s.terms, timeMax(s.tat, at(s.now)), n)
  elseif s.terms.algorithm == SlidingLog then
    logAdd(s.log, s.now, n)
  elseif s.terms.algorithm ~= Concurrency then -- who had nothing in flight has nothing now
    s.window.used = s.window.used + n
  end
end

-- used returns the tokens in use: of a bucket no more than one above its capacity is told.
local function used(s)
  local t = s.terms
  if t.algorithm == SlidingLog then return logUsed(s.log) end
  if not bucket(t) then return s.window.used end
  if less(bucketAdd(t, at(s.now), t.burst), s.tat) then return t.burst + 1 end
  return t.burst - bucketAvail(t, s.now, s.tat)
end

-- charge takes n tokens that were spent already, whether they are there or
-- not: up to a capacity below empty, so that no report blocks a key for long.
local function charge(s, n)
  local burst = s.terms.burst
  if bucket(s.terms) then
    local lowest = after(s, after(s, at(s.now), burst), burst)
    s.tat = timeMax(s.tat, timeMin(after(s, s.tat, n), lowest))
  else
    consume(s, max(0, min(n, 2 * burst - used(s))))
  end
end

-- credit gives n tokens back.
local function credit(s, n)
  if bucket(s.terms) then
    s.tat = after(s, s.tat, -n)
  elseif s.terms.algorithm == SlidingLog then
    logRemove(s.log, n)
  else
    s.window.used = max(0, s.window.used - n)
  end
end

-- lift raises a bucket's level to the n tokens that occupy it at the instant
-- moment. A window counts leased tokens as used until it ends.
local function lift(s, moment, n)
  if bucket(s.terms) then
    s.tat = timeMax(s.tat, after(s, at(moment), n))
  else
    s.window.used = max(s.window.used, n)
  end
end

-- begin makes what was leased ahead the leases of the window that begins.
local function begin(s, start)
  if s.ahead.start == start then
    s.window.used = s.ahead.used
    for _, l in ipairs(s.ahead.leases) do s.leases[#s.leases + 1] = l end
    for _, l in ipairs(s.leases) do l.exp = start + s.terms.ttl + Guard end
  end
  if s.ahead.start <= start then s.ahead = noAhead() end
end

-- roll brings windows and logs to the present. Leases end with their window. A
-- sliding one goes on counting what was leased of it, but for what a final S
-- says was not spent.
local function roll(s)
  local t = s.terms
  if windowed(t) then
    local w = windowRoll(s.window, span(t, s.now))
    if w.start ~= s.window.start then
      s.old = {}
      if t.algorithm == SlidingWindow and w.prev > 0 then s.old = s.leases end
      for _, l in ipairs(s.old) do l.exp = w.start + t.ttl end
      s.leases = {}
      s.window = {start = w.start, used = w.used, prev = w.prev}
      begin(s, w.start)
    end
    s.window.start, s.window.prev = w.start, w.prev
  elseif t.algorithm == SlidingLog then
    s.log = logPrune(log(t), s.log, s.now)
  end
end

-- adopt goes over to newer terms, keeping what is used in tokens, and reports
-- whether the terms that were offered are older than those it keeps.
local function adopt(s, terms)
  local old = s.terms
  if older(terms, old) then return true end
  if old.burst == 0 then
    s.terms = terms
  elseif not counts(terms, old, s.now) then
    -- Another way of counting begins with what was used under the last one.
    roll(s)
    slotsExpire(s.slots, s.now)
    local n = min(old.burst - avail(s), terms.burst)
    s.tat, s.window, s.log, s.old, s.ahead, s.slots = at(0), noWindow(), {}, {}, noAhead(), noSlots()
    if terms.algorithm == Concurrency then s.leases = {} end -- tokens are no slots
    s.terms = terms
    roll(s)
    consume(s, n)
  else
    if bucket(terms) then s.tat = rebase(terms, s.now, s.tat, old) end
    s.terms = terms
  end
  return false
end

-- final takes in how much was spent of a lease that ended with the window before.
local function final(s, ask)
  if ask.ended == 0 then return end
  for i, l in ipairs(s.old) do
    if l.holder == ask.holder and l.id == ask.ended and s.now < l.exp then
      s.window.prev = max(0, s.window.prev - max(0, l.granted - max(l.spent, ask.endedSpent)))
      table.remove(s.old, i)
      return
    end
  end
end
-- ledger: who gets how much of what is scarce, and when they come again.
local scarceFloor, scarceCeiling, scarcePerHolder = 100000, 1000000, 10
local slidingFloor, slidingParts = 10000, 30

local function left(l) return l.granted - l.spent end

local function outstanding(s)
  local o = 0
  for _, l in ipairs(s.leases) do o = o + left(l) end
  return o
end

-- collect is for how long several holders wait until tokens have collected, µs.
local function collect(s)
  local t = s.terms
  local long = max(scarceFloor, bucketAdd(t, at(0), 1)[1] * scarcePerHolder * #s.leases)
  long = min(floor(bucketAdd(t, at(0), t.burst)[1] / 4), long, scarceCeiling, max(scarceFloor, floor(t.ttl / 2)))
  if t.algorithm == SlidingWindow then
    local _, stop = span(t, s.now)
    long = min(long, max(slidingFloor, min(floor(t.length / slidingParts), floor((stop - s.now) / 4))))
  end
  return long
end

-- fair is one holder's part of what may be leased in all.
local function fair(s) return max(1, floor(floor(s.terms.burst * 4 / 5) / #s.leases)) end

-- waiting counts the holders that wait for their turn, and l.
local function waiting(s, l)
  local n = 1
  for _, o in ipairs(s.leases) do
    if o ~= l and o.due > s.now then n = n + 1 end
  end
  return n
end

-- late counts the holders but l whose turn has just come, and who did not yet come for it.
local function late(s, l)
  local n, since, leases = 0, s.now - floor(collect(s) / 4), s.leases
  for i = 1, #leases do
    local due = leases[i].due
    if leases[i] ~= l and since < due and due <= s.now then n = n + 1 end
  end
  return n
end

-- ofTurn is how much of available holder l gets when others wait for their turns.
local function ofTurn(s, l, available)
  local t = s.terms
  local n = waiting(s, l)
  local part = 1 + min(late(s, l), floor(n / 10))
  local comes = floor(5 * collect(s) * t.q / (4 * n * t.p))
  return max(1, min(floor((available + part - 1) / part), max(comes, floor(available / (2 * n)))))
end

-- gap is how long before the turn of holder l the one before it is, µs.
local function gap(s, l)
  local all, holders = collect(s), #s.leases
  if s.terms.algorithm ~= SlidingWindow then return floor(all / holders) end
  local granted = 0
  for _, o in ipairs(s.leases) do granted = granted + o.granted end
  if l.granted > 0 and waiting(s, l) <= 1 + floor(holders / 4) then
    local parts = floor((granted + l.granted - 1) / l.granted)
    if parts <= floor(holders / 2) then return floor(all / parts) end
  end
  return max(floor(all / holders), min(floor(all / 2), bucketAdd(s.terms, at(0), 2)[1]))
end

-- ofSliding is share in a sliding window.
local function ofSliding(s, l, available)
  local t = s.terms
  local comes = floor(5 * gap(s, l) * t.q / (4 * t.p))
  return max(floor(2 * available / (#s.leases + 1)), min(available, max(1, comes)))
end

-- share is how much of available holder l may lease.
local function share(s, l, available)
  if not leases(s.terms) then return 0 end
  local burst = s.terms.burst
  local most = min(available, floor(burst * 4 / 5) - s.others - left(l))
  local others = #s.leases - 1
  if others == 0 then
    return most
  elseif s.terms.algorithm == SlidingWindow then
    return min(ofSliding(s, l, available), most)
  elseif s.terms.algorithm == FixedWindow and available < floor(burst / 4) then
    return min(floor((available + others) / (others + 1)), most)
  elseif available >= floor(burst / 2) then
    return min(floor(available / (others + 2)), most)
  elseif available >= floor(burst / 4) then
    return min(fair(s) - left(l), most)
  end
  return min(fair(s) - left(l), ofTurn(s, l, available), most)
end

-- turn gives holder l its turn: those that wait come one after the other at
-- even distances, so that each finds the same.
local function turn(s, l)
  local last = s.now
  for _, o in ipairs(s.leases) do
    if o ~= l then last = max(last, o.due) end
  end
  local whole, step = collect(s), gap(s, l)
  local pause = min(last + step - s.now, 2 * whole)
  if s.terms.algorithm ~= SlidingWindow then
    if last > s.now then pause = max(whole - min(step, floor(whole / 4)), pause) else pause = whole end
  end
  l.due = s.now + pause
  return pause
end

-- askAgain says when holder l, that got less than it wanted, should come again.
local function askAgain(s, l, others)
  local t = s.terms
  local available = avail(s)
  local next = wait(s, min(t.burst, available + 1))
  local holders = #s.leases
  if holders < 2 and others == 0 then return next end
  if leases(t) and left(l) >= fair(s) then return 0 end
  local enough = floor(t.burst / 4) -- for nobody to wait
  local fixed = t.algorithm == FixedWindow
  if fixed then
    enough = 1
  elseif t.algorithm == SlidingWindow then
    enough = max(1, floor(holders / 2))
  end
  if available > 0 and available >= enough then return 0 end
  if available > 0 then return turn(s, l) end
  if fixed and others > 0 then return min(next, collect(s)) end
  if fixed then return next end
  return max(next, turn(s, l))
end
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
  for i, l in ipairs(list) do
    if l.holder == holder then return i end
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
      l.exp = l.exp + back
      l.due = 0
    end
    slotsShift(s.slots, back)
  end
  s.now = now
end

-- forfeit drops the leases whose time is over, oldest first, each as if it were the only one.
local function forfeit(s)
  local ended, live, out = {}, {}, 0
  for _, l in ipairs(s.leases) do
    out = out + left(l)
    if l.exp <= s.now then
      ended[#ended + 1] = l
    else
      live[#live + 1] = l
    end
  end
  if #ended == 0 then return end
  table.sort(ended, function(a, b) return a.exp < b.exp end) -- of those that end together the first lifts highest
  for _, l in ipairs(ended) do
    lift(s, l.exp, out)
    out = out - left(l)
  end
  s.leases = live
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
  local l = i and s.leases[i]
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
  l.exp = s.now + s.terms.ttl + Guard

  local a = fillAnswer(s, l, {stale = stale, seq = ask.seq, short = refused > 0 or l.granted < ask.raiseTo})
  if refused > 0 and not bucket(s.terms) then a.window.refused, a.window.wait = refused, wait(s, refused) end
  if left(l) == 0 and l.debt == ask.debt and ask.debtAcked == ask.debt and ask.raiseTo <= l.granted and not ask.keep then
    table.remove(s.leases, i) -- nothing left to remember
    a.lease, a.granted = 0, 0
  end
  return a
end
-- ledger: what a store may forget, and how little it must keep.

-- lost makes s the ledger of a key whose past was lost at the instant loss:
-- empty then, or for a window as far used as it had gone.
local function lost(s, terms, loss)
  s.terms, s.now = terms, loss
  roll(s)
  if terms.algorithm == Concurrency then s.slots.closed = loss + terms.ttl + SlotsGuard end
  local n = terms.burst
  if windowed(terms) then
    local start, stop = span(terms, loss)
    n = ceil((loss - start) / (stop - start) * n)
  end
  consume(s, n)
end

-- clear returns when nothing will be used any more if nothing else is spent, µs.
local function clear(s)
  local t = s.terms
  if t.algorithm == FixedWindow then
    if s.window.used == 0 then return s.window.start end
    local _, stop = span(t, s.window.start)
    return stop
  end
  if t.algorithm == SlidingWindow then return s.window.start + slidingClear(sliding(t), s.window, 0) end
  if t.algorithm == SlidingLog then return s.now + logClear(log(t), s.log, s.now) end
  if t.algorithm == Concurrency then return slotsEnds(s.slots) end
  if s.tat[2] > 0 then return s.tat[1] + 1 end
  return s.tat[1]
end

-- idle reports whether the ledger says no more than a missing one would.
local function idle(s) return #s.leases + #s.ahead.leases == 0 and clear(s) <= s.now end

-- ends returns when the ledger will be idle if nobody asks again, µs: the time
-- after which Redis may forget it.
local function ends(s)
  local last = clear(s)
  for _, l in ipairs(s.leases) do last = max(last, l.exp) end
  for _, l in ipairs(s.old) do last = max(last, l.exp) end
  if bucket(s.terms) and #s.leases > 0 then
    local t = after(s, at(last), outstanding(s)) -- forfeited at the end, and refilled
    last = t[1] + 1
  end
  if s.ahead.start ~= 0 then last = max(last, s.ahead.start + termsAfter(s.terms)) end
  return last
end

-- packable returns the two numbers that a ledger without leases comes down to,
-- if it does: a bucket always, a window unless the one before it counts.
local function packable(s)
  if #s.leases + #s.old + #s.ahead.leases > 0 then return nil end
  if bucket(s.terms) then return s.tat[1] - s.now, s.tat[2] end
  if windowed(s.terms) and s.window.prev == 0 and s.window.start <= s.now then
    return s.now - s.window.start, s.window.used
  end
end

-- unpacked makes s, whose terms and now are set, what packable returned.
local function unpacked(s, a, b)
  if bucket(s.terms) then
    s.tat = {s.now + a, b}
  else
    s.window = {start = s.now - a, used = b, prev = 0}
  end
end
-- What travels and what is kept, in bytes. Numbers are little-endian. Terms are
-- 4 bytes that name them (a digest, made by the coordinator) and a body of at
-- most 64, which is the longest value that a small hash keeps small.
local Whole, Calendar = 16, 32 -- flags beside the algorithm
local StateLayout = 1

-- unpackTerms reads terms, and keeps them as they were read: bytes.
local function unpackTerms(bytes, pos)
  local t = {}
  local kind
  local first = pos or 1
  t.ref, kind, t.p, t.q, t.burst, t.version, t.revision, t.ttl, t.share, pos = unpack('<c4BI7I5I7I7I7I7I2', bytes, pos)
  t.calendarStart, t.calendarEnd, t.calendarNext, t.length = 0, 0, 0, 0
  if kind >= Calendar then
    local length, following
    t.calendarStart, length, following, pos = unpack('<I7I7I7', bytes, pos)
    t.calendarEnd = t.calendarStart + length
    t.calendarNext = t.calendarEnd + following
    kind = kind - Calendar
  else
    t.length, pos = unpack('<I7', bytes, pos)
  end
  t.whole = kind >= Whole
  t.algorithm = kind % Whole
  t.bytes = string.sub(bytes, first, pos - 1)
  return t, pos
end

-- sameTerms is unpackTerms, which need not read again what came last: most ops are under one rule's terms.
local lastBytes, lastTerms
local function sameTerms(bytes)
  if bytes ~= lastBytes then lastBytes, lastTerms = bytes, (unpackTerms(bytes)) end
  return lastTerms
end

local function unpackNumbers(n, bytes, pos)
  local list = {}
  for i = 1, n do list[i], pos = unpack('<i8', bytes, pos) end
  return list, pos
end

local AskFormat = '<Bc8c8i8i8i8i8i8i8i8i8i8i8i8BB'

local function unpackAsk(bytes)
  local a = {}
  local flags, takes, needs, pos
  flags, a.holder, a.name, a.seq, a.lease, a.spent, a.lag, a.lagFrac, a.debt, a.debtAcked, a.raiseTo, a.ended, a.endedSpent, a.offer,
    takes, needs, pos = unpack(AskFormat, bytes)
  a.takes, pos = unpackNumbers(takes, bytes, pos)
  a.needs, pos = unpackNumbers(needs, bytes, pos)
  a.ahead, a.keep, a.slots = flags % 2 == 1, flags % 4 >= 2, flags >= 4
  return a
end

-- packAnswer returns an answer, and what the caller should count: the tokens that were spent
-- over what was known to be granted, if any, and whether this op found that data was lost.
local AnswerFormat = '<Bi8i8I4I4i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8'
local SameTerms, DataLost = 16, 64 -- flags

local function packAnswer(a, offered, over, found)
  local flags, tail = 0, ''
  if a.superseded then flags = flags + 1 end
  if a.stale then flags = flags + 2 end
  if a.ahead then flags = flags + 4 end
  if a.short then flags = flags + 8 end
  if a.terms == offered then
    flags = flags + SameTerms
  elseif a.terms then
    flags, tail = flags + 32, a.terms.bytes
  end
  if found then flags = flags + DataLost end
  if over then flags, tail = flags + 128, pack('<i8', over) .. tail end
  local level, w = a.level or at(0), a.window or noWindow()
  return pack(AnswerFormat, flags, a.seq, a.lease or 0, a.takenLow or 0, a.takenHigh or 0,
    a.granted or 0, a.spent or 0, a.debt or 0, a.ttl or 0, level[1], level[2], w.left or 0, w.used, w.prev, w.refused or 0,
    w.wait or 0, a.others or 0, a.holders or 0, a.askAgain or 0, a.burst or 0) .. tail
end

local LeaseFormat = '<c8i8i8i8i8i8i8i8i8I4I4'

local function packLeases(out, list)
  for _, l in ipairs(list) do
    out[#out + 1] = pack(LeaseFormat, l.holder, l.id, l.granted, l.spent, l.debt, l.exp, l.due, l.seq, l.version, l.takenLow, l.takenHigh)
  end
end

local function unpackLeases(n, bytes, pos)
  local list = {}
  for i = 1, n do
    local l = {}
    l.holder, l.id, l.granted, l.spent, l.debt, l.exp, l.due, l.seq, l.version, l.takenLow, l.takenHigh, pos =
      unpack(LeaseFormat, bytes, pos)
    list[i] = l
  end
  return list, pos
end

local StateFormat = '<i8i8i8i8i8i8i8i8i8i8i8I4I4I4I4I4'

-- packState returns a ledger with all that it has, for a key of its own.
local function packState(s)
  local out = {
    pack('B', StateLayout), s.terms.bytes,
    pack(StateFormat, s.now, s.tat[1], s.tat[2], s.window.start, s.window.used, s.window.prev, s.ahead.start, s.ahead.used,
      s.slots.closed, s.slots.sum, s.slots.at, #s.log, #s.leases, #s.old, #s.ahead.leases, #s.slots.holdings),
  }
  for _, e in ipairs(s.log) do out[#out + 1] = pack('<i8i8', e[1], e[2]) end
  packLeases(out, s.leases)
  packLeases(out, s.old)
  packLeases(out, s.ahead.leases)
  for _, h in ipairs(s.slots.holdings) do
    out[#out + 1] = pack('<c8c8i8i8i8i8i8B', h.holder, h.name, h.slots, h.exp, h.seq, h.version, h.offer, h.fate)
  end
  return table.concat(out)
end

-- unpackState reads what packState wrote. Terms that are those offered, as they
-- mostly are, need not be read again.
local function unpackState(bytes, offered)
  local layout, pos = unpack('B', bytes)
  if layout ~= StateLayout then error('a ledger of layout ' .. layout .. ', written by another version of Leaseway', 0) end
  local terms, from = offered, pos
  pos = from + #offered.bytes
  if string.sub(bytes, from, pos - 1) ~= offered.bytes then terms, pos = unpackTerms(bytes, from) end
  local s = newState(terms)
  local w, ahead, slots = s.window, s.ahead, s.slots
  local entries, live, old, next, holdings
  s.now, s.tat[1], s.tat[2], w.start, w.used, w.prev, ahead.start, ahead.used, slots.closed, slots.sum, slots.at,
    entries, live, old, next, holdings, pos = unpack(StateFormat, bytes, pos)
  for i = 1, entries do
    local e = {}
    e[1], e[2], pos = unpack('<i8i8', bytes, pos)
    s.log[i] = e
  end
  s.leases, pos = unpackLeases(live, bytes, pos)
  s.old, pos = unpackLeases(old, bytes, pos)
  ahead.leases, pos = unpackLeases(next, bytes, pos)
  for i = 1, holdings do
    local h = {}
    h.holder, h.name, h.slots, h.exp, h.seq, h.version, h.offer, h.fate, pos = unpack('<c8c8i8i8i8i8i8B', bytes, pos)
    slots.holdings[i] = h
  end
  return s
end

-- whole reports whether bytes are all of a ledger, as packState writes it, and not
-- one at rest, which is shorter than any of those.
local function whole(bytes) return #bytes > 64 end

-- size returns how many bytes n takes, of those that are used.
local function size(n)
  if n == 0 then return 0 end
  if n < 2^8 then return 1 end
  if n < 2^16 then return 2 end
  if n < 2^24 then return 3 end
  if n < 2^32 then return 4 end
  if n < 2^40 then return 5 end
  return 7
end

local function packSized(n, bytes)
  if bytes == 0 then return '' end
  return pack('<I' .. bytes, n)
end

local function unpackSized(bytes, pos, n)
  if n == 0 then return 0, pos end
  return unpack('<I' .. n, bytes, pos)
end

-- packRest returns a ledger that comes down to the numbers a and b, which its
-- group keeps: the name of its terms, when it was written, and the two.
local function packNumbers(ref, now, a, b)
  local m, n = size(a), size(b)
  return pack('<c4I7B', ref, now, m * 16 + n) .. packSized(a, m) .. packSized(b, n)
end

local function packRest(s, a, b) return packNumbers(s.terms.ref, s.now, a, b) end

-- restRef returns the name of the terms of a ledger at rest.
local function restRef(bytes) return string.sub(bytes, 1, 4) end

-- restNumbers returns when a ledger at rest was written, and its two numbers.
local function restNumbers(bytes)
  local _, now, sizes, pos = unpack('<c4I7B', bytes)
  local a, b
  a, pos = unpackSized(bytes, pos, floor(sizes / 16))
  b = unpackSized(bytes, pos, sizes % 16)
  return now, a, b
end

local function unpackRest(bytes, terms)
  local s = newState(terms)
  local a, b
  s.now, a, b = restNumbers(bytes)
  unpacked(s, a, b)
  return s
end
-- One op on one ledger. Where it is kept:
--
--	group   a hash of about a hundred ledgers at rest, each of a few bytes, and the
--	        terms that they were last charged under, each once
--	held    a ledger that has leases, a log or slots, by itself
--	mark    says of its hash slot when data was lost, if it ever was
--
-- at has their keys, the ledger's name in the group, the terms that are offered, and
-- those that it had in the group if it was there.
local MarkTTL = 400 * 24 * 3600 * 1000 -- ms
local SweepFrom, SweepEvery, SweepSize = 48, 16, 32

-- timeOf returns the time that the caller says, or Redis's own, µs.
local function timeOf(text)
  if text ~= '' then return tonumber(text) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function termsField(ref) return 't' .. ref end

-- expireAfter has key live for ms, or as long as it would anyway.
local function expireAfter(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
end

-- lossOf returns when the data of this hash slot was lost, 0 for never. A mark
-- is set for each slot before the first op of all: one that is missing was lost, by now.
local function lossOf(at, now)
  local bytes = redis.call('GET', at.mark)
  if bytes then return (unpack('<i8', bytes)) end
  redis.call('SET', at.mark, pack('<i8', now), 'PX', MarkTTL)
  at.found = true
  return now
end

-- termsOf returns the terms of that name that the group has, by way of known.
local function termsOf(at, ref, known)
  local terms = known[ref]
  if not terms then
    local body = redis.call('HGET', at.group, termsField(ref))
    if body then
      body = ref .. body
      terms = body == at.offered.bytes and at.offered or unpackTerms(body)
      known[ref] = terms
    end
  end
  return terms
end

-- over reports whether a ledger of the group says nothing any more.
local function over(at, bytes, now, known)
  if whole(bytes) then return ends(unpackState(bytes, at.offered)) <= now end
  local terms = termsOf(at, restRef(bytes), known)
  if not terms then return true end
  return clear(unpackRest(bytes, terms)) <= now
end

-- sweep looks at some ledgers of a group that has grown, and drops those that
-- say nothing: at most every other one of a group that is full is dead.
local function sweep(at, now)
  local n = redis.call('HLEN', at.group)
  if n < SweepFrom or n % SweepEvery ~= 0 then return end
  local known = {}
  local some = redis.call('HRANDFIELD', at.group, SweepSize, 'WITHVALUES')
  for i = 1, #some, 2 do
    if #some[i] == #at.name and some[i] ~= at.name and over(at, some[i + 1], now, known) then redis.call('HDEL', at.group, some[i]) end
  end
end

-- renew drops what says nothing from the whole group, and the terms that nobody
-- refers to then, but for new ones. It comes with those only: when a rule has changed.
local function renew(at, now, new)
  local known, used, all = {}, {[new] = true}, redis.call('HGETALL', at.group)
  for i = 1, #all, 2 do
    if #all[i] == #at.name then
      if over(at, all[i + 1], now, known) then
        redis.call('HDEL', at.group, all[i])
      else
        used[termsField(restRef(all[i + 1]))] = true
      end
    end
  end
  for i = 1, #all, 2 do
    if #all[i] ~= #at.name and not used[all[i]] then redis.call('HDEL', at.group, all[i]) end
  end
end

-- keepTerms makes sure that the group has the terms, and reports whether it can:
-- others may have the same name.
local function keepTerms(at, terms, now)
  if terms.bytes == at.terms then return true end -- they were read from there
  local body = string.sub(terms.bytes, 5)
  local field = termsField(terms.ref)
  local kept = redis.call('HGET', at.group, field)
  if kept then return kept == body end
  redis.call('HSET', at.group, field, body) -- first: a group that is gone for a moment is another node's if its slot moves
  if redis.call('HLEN', at.group) > 1 then renew(at, now, field) end
  return true
end

-- grouped returns the ledger that the group has under that name, if it has one.
local function grouped(at)
  local bytes = redis.call('HGET', at.group, at.name)
  if bytes and whole(bytes) then return unpackState(bytes, at.offered) end
  local terms = bytes and termsOf(at, restRef(bytes), {})
  if not terms then return nil end
  at.terms = terms.bytes
  return unpackRest(bytes, terms)
end

-- unknown returns a ledger that nothing is known of, in a hash slot whose data was lost at loss, or never if that is 0.
local function unknown(offered, loss)
  local s = newState(noTerms())
  if loss > 0 and not offered.whole then lost(s, offered, loss) end
  return s
end

-- load returns the ledger, and where it was: in the group, by itself (bytes), or nowhere.
local function load(at, now, bytes)
  if bytes then return unpackState(bytes, at.offered), 'held' end
  local s = grouped(at)
  if s then return s, 'rest' end
  return unknown(at.offered, lossOf(at, now)), 'nowhere'
end

-- milliseconds returns how long a ledger that says something is kept.
local function milliseconds(at, s) return max(at.least, ceil((ends(s) - s.now) / 1000)) end

-- save keeps the ledger as small as it goes.
local function save(at, s, was)
  local a, b
  if not idle(s) then
    local ms = milliseconds(at, s)
    a, b = packable(s)
    local rest = a and packRest(s, a, b) -- before the first write, which nothing may leave alone
    if a and keepTerms(at, s.terms, s.now) then
      if redis.call('HSET', at.group, at.name, rest) == 1 then sweep(at, s.now) end
      expireAfter(at.group, ms)
    else
      a = nil
      redis.call('SET', at.held, packState(s), 'PX', ms)
    end
    if a and was ~= 'held' or not a and was ~= 'rest' then return end -- it is where it was
  end
  if was == 'held' then redis.call('DEL', at.held) end
  if was == 'rest' then redis.call('HDEL', at.group, at.name) end
end
-- The shortest way through an op: one take, and nothing else, from a bucket that
-- nobody leases and that has enough. Keys that are seen seldom ask so, which are
-- most of those that Redis hears of. It does what load, apply and save would do,
-- to the last bit, with none of their tables; for all else it is nil, and nothing
-- was done.

-- plain returns seq, cost and debt of an ask that is no more than one take.
local function plain(ask)
  if string.byte(ask) ~= 0 then return nil end
  local _, _, _, seq, lease, spent, _, _, debt, acked, raiseTo, ended, _, _, takes, needs, pos = unpack(AskFormat, ask)
  if takes ~= 1 or needs ~= 0 or lease ~= 0 or spent ~= 0 or raiseTo ~= 0 or ended ~= 0 or debt ~= acked then return nil end
  return seq, (unpack('<i8', ask, pos)), debt
end

-- fullAt returns when the bucket is full again, µs and 1/q µs; nil where it takes more to say.
local function fullAt(at, now)
  local t = at.offered
  local bytes = redis.call('HGET', at.group, at.name)
  if not bytes then
    if lossOf(at, now) > 0 and not t.whole then return nil end
    return now, 0
  end
  if whole(bytes) or restRef(bytes) ~= t.ref then return nil end
  if redis.call('HGET', at.group, termsField(t.ref)) ~= string.sub(t.bytes, 5) then return nil end
  at.terms = t.bytes
  local written, a, b = restNumbers(bytes)
  if written > now then return nil end
  if written + a < now then return now, 0 end
  return written + a, b
end

-- take answers the ask if it is such a one; the key held is known to be missing.
local function take(at, now, ask)
  local t = at.offered
  if t.algorithm ~= TokenBucket then return nil end
  local seq, cost, debt = plain(ask)
  if not seq or cost < 1 then return nil end
  local tat, frac = fullAt(at, now)
  if not tat then return nil end
  local used = (tat - now) * t.q + frac + cost * t.p
  if used > t.burst * t.p or not keepTerms(at, t, now) then return nil end
  local micros = floor(used / t.q)
  frac = used - micros * t.q
  if redis.call('HSET', at.group, at.name, packNumbers(t.ref, now, micros, frac)) == 1 then sweep(at, now) end
  expireAfter(at.group, max(at.least, ceil((micros + (frac > 0 and 1 or 0)) / 1000)))
  return pack(AnswerFormat, at.found and SameTerms + DataLost or SameTerms, seq, 0, 1, 0, 0, 0, debt, t.ttl, micros, frac,
    0, 0, 0, 0, 0, 0, 1, 0, 0)
end

-- op has KEYS group, held, mark, and ARGV the ledger's name in the group,
-- terms, ask, the shortest time to live of a key (ms), and the time (µs) or ''.
local function op(keys, argv)
  bind()
  local now, offered = timeOf(argv[5]), sameTerms(argv[2])
  local at = {group = keys[1], held = keys[2], mark = keys[3], name = argv[1], least = tonumber(argv[4]), offered = offered}
  local bytes = redis.call('GET', at.held)
  local short = not bytes and take(at, now, argv[3])
  if short then return short end
  local s, was = load(at, now, bytes)
  local answer = apply(s, now, offered, unpackAsk(argv[3]))
  save(at, s, was)
  return packAnswer(answer, offered, s.over, at.found)
end
-- beat notes that holders live, and says how many do and whose data this is.
--
-- KEYS: the holders, a sorted set by the instant until which each lives, and the
-- id of the data; without the id while their slot is on its way to another node, which
-- then is not told of. ARGV: the id that the caller knows, in case it was lost, how long an id is kept (ms),
-- how long the holders live (µs), how many may, the shortest time to live of the
-- set (ms), the time (µs) or '', and the holders.
local function beat(keys, argv)
  bind()
  local holders, id = keys[1], keys[2]
  local ttl, most, least, now = tonumber(argv[3]), tonumber(argv[4]), tonumber(argv[5]), timeOf(argv[6])
  local function score(t) return string.format('%.0f', t) end

  if id then redis.call('SET', id, argv[1], 'NX', 'PX', argv[2]) end
  redis.call('ZREMRANGEBYSCORE', holders, '-inf', score(now))
  local refused = 0
  for i = 7, #argv do
    if redis.call('ZCARD', holders) < most or redis.call('ZSCORE', holders, argv[i]) then
      redis.call('ZADD', holders, score(now + ttl), argv[i])
    else
      refused = refused + 1
    end
  end
  redis.call('ZREMRANGEBYSCORE', holders, '-inf', score(now)) -- a ttl of 0
  local ms = max(least, ceil(ttl / 1000))
  if redis.call('PTTL', holders) < ms then redis.call('PEXPIRE', holders, ms) end
  local live = redis.call('ZCARD', holders)
  if not id then return {live, refused, argv[1], tonumber(argv[2])} end
  return {live, refused, redis.call('GET', id), redis.call('PTTL', id)}
end
-- One op on a ledger whose hash slot is on its way to another node. Such a slot's
-- keys are some here, some there, and no node runs what names two of them. What
-- names one is run where that key is, or, if it is nowhere, where the slot goes to.
-- So the caller looks for the ledger in one key after the other:
--
--	held ──no──> group ──no──> mark ───> held ──no──> new, in the group
--
-- and where it is, it stays until the slot has arrived: with leases in a group as
-- well. A missing ledger begins in its group, unless it came to be by itself
-- meanwhile. That key can only be on the same node then, since a node that the
-- slot leaves makes none. Asking for it is the one look at a key that was not declared.

-- stay keeps the ledger in the group, at rest or whole.
local function stay(at, s, was)
  if idle(s) then
    if was then redis.call('HDEL', at.group, at.name) end
    return
  end
  local a, b = packable(s)
  local rest = a and packRest(s, a, b)
  if not (a and keepTerms(at, s.terms, s.now)) then rest = packState(s) end
  redis.call('HSET', at.group, at.name, rest)
  expireAfter(at.group, milliseconds(at, s))
end

-- moveHeld applies the ask to a ledger by itself, and reports whether there is one.
local function moveHeld(at, now, ask)
  local bytes = redis.call('GET', at.held)
  if not bytes then return nil end
  local s = unpackState(bytes, at.offered)
  local answer = apply(s, now, at.offered, ask)
  if idle(s) then
    redis.call('DEL', at.held)
  else
    redis.call('SET', at.held, packState(s), 'PX', milliseconds(at, s))
  end
  return answer, s.over
end

-- moveGroup applies the ask to a ledger of the group. One that is not there begins
-- if the caller knows the loss of its slot.
local function moveGroup(at, now, ask, loss)
  local s = grouped(at)
  local was = s ~= nil
  if not s then
    if not loss then return nil end
    local other = redis.pcall('GET', at.held)
    if type(other) == 'string' then return nil end
    s = unknown(at.offered, loss)
  end
  local answer = apply(s, now, at.offered, ask)
  stay(at, s, was)
  return answer, s.over
end

-- move has one of an op's KEYS, and ARGV as op has; then which of them it is, the name of held, and the
-- loss of the slot if it is known, or ''. It returns '' where the ledger is not.
local function move(keys, argv)
  bind()
  local now, which = timeOf(argv[5]), argv[6]
  if which == 'mark' then return string.format('%.0f', lossOf({mark = keys[1]}, now)) end
  local at = {group = keys[1], held = argv[7], name = argv[1], least = tonumber(argv[4]), offered = unpackTerms(argv[2])}
  local answer, over
  if which == 'held' then
    answer, over = moveHeld(at, now, unpackAsk(argv[3]))
  else
    answer, over = moveGroup(at, now, unpackAsk(argv[3]), tonumber(argv[8]))
  end
  return answer and packAnswer(answer, at.offered, over) or ''
end
