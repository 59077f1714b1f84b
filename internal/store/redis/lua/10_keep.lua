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
local function idle(s) return #s.leases + #s.ahead.leases + s.ahead.used == 0 and clear(s) <= s.now end

-- ends returns when the ledger will be idle if nobody asks again, µs: the time
-- after which Redis may forget it.
local function ends(s)
  local last = clear(s)
  local leases = s.leases
  for i = 1, #leases do
    if leases[i].exp > last then last = leases[i].exp end
  end
  for _, l in ipairs(s.old) do last = max(last, l.exp) end
  if bucket(s.terms) and #s.leases > 0 then
    local t = after(s, at(last), outstanding(s)) -- forfeited at the end, and refilled
    last = t[1] + 1
  end
  if s.ahead.start ~= 0 then last = max(last, s.ahead.start + termsAfter(s.terms)) end
  return last
end

-- packable returns the two numbers that a ledger without leases comes down to,
-- if it does: a bucket always, a window unless the one before it counts or
-- something of the one after it is spent.
local function packable(s)
  if #s.leases + #s.old + #s.ahead.leases + s.ahead.used > 0 then return nil end
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
