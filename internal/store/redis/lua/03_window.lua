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
