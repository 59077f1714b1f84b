-- ledger: where the algorithms differ. A state s has tat, window, log, now,
-- terms, leases, old, ahead, slots and others, as ledger.State. It must have
-- been brought to its now: see roll.
local Guard, MaxTakes = 50000, 64

-- opened returns a lease of the present window with all that it has, so that it may be changed: see unpackLeases.
local opened

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
      for _, l in ipairs(s.old) do opened(l).exp, l.due = w.start + t.ttl, 0 end
      s.leases = {}
      s.window = {start = w.start, used = w.used, prev = w.prev}
      begin(s, w.start)
    end
    s.window.start, s.window.prev = w.start, w.prev
    for i = #s.old, 1, -1 do
      if s.old[i].exp <= s.now then table.remove(s.old, i) end
    end
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
