-- ledger: who gets how much of what is scarce, and when they come again.
local scarceFloor, scarceCeiling, scarcePerHolder = 100000, 1000000, 10
local slidingFloor, slidingParts = 10000, 30

local function left(l) return l.granted - l.spent end

local function outstanding(s)
  local o = 0
  local leases = s.leases
  for i = 1, #leases do o = o + leases[i].granted - leases[i].spent end
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

-- waiting counts the holders that wait for their turn, and l; and those but l whose turn has just come, and who did not yet come for it.
local function waiting(s, l)
  local n, late, since, leases = 1, 0, s.now - floor(collect(s) / 4), s.leases
  for i = 1, #leases do
    local due = leases[i].due
    if leases[i] ~= l then
      if due > s.now then
        n = n + 1
      elseif due > since then
        late = late + 1
      end
    end
  end
  return n, late
end

-- ofTurn is how much of available holder l gets when others wait for their turns.
local function ofTurn(s, l, available)
  local t = s.terms
  local n, late = waiting(s, l)
  local part = 1 + min(late, floor(n / 10))
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
  local leases = s.leases
  for i = 1, #leases do
    if leases[i] ~= l and leases[i].due > last then last = leases[i].due end
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
