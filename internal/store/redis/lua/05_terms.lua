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
