-- The vectors of package rate, on the functions of the library: put behind its files. ARGV: what to call, then numbers. The answer is numbers.
bind()

local next = 1
local function number()
  next = next + 1
  return tonumber(ARGV[next])
end

local function aBucket() return {p = number(), q = number(), burst = number()} end

local function anInstant() return {number(), number()} end

local calls = {
  add = function()
    local b, t = aBucket(), anInstant()
    return bucketAdd(b, t, number())
  end,
  avail = function()
    local b, now = aBucket(), number()
    return {bucketAvail(b, now, anInstant())}
  end,
  wait = function()
    local b, now, t = aBucket(), number(), anInstant()
    return {bucketWait(b, now, t, number())}
  end,
  rebase = function()
    local b, now, t = aBucket(), number(), anInstant()
    return rebase(b, now, t, aBucket())
  end,
  -- One counter under one algorithm, step by step: how much is taken, then all
  -- that is to be known.
  timeline = function()
    local t = noTerms()
    local s, out = newState(t), {}
    t.algorithm, t.p, t.q, t.burst, t.length = number(), number(), number(), number(), number()
    for _ = 1, number() do
      local n, limit, back
      s.now, n, limit, t.calendarStart, t.calendarEnd, back = number(), number(), number(), number(), number(), number()
      if limit > 0 then t.burst = limit end
      roll(s)
      if back > 0 then logRemove(s.log, back) end
      local ok = n <= avail(s)
      local delay = max(0, s.tat[1] + (s.tat[2] > 0 and 1 or 0) - s.now)
      if ok then consume(s, n) end
      for _, v in ipairs({
        ok and 1 or 0, avail(s), wait(s, n), clear(s) - s.now, delay, s.tat[1], s.tat[2],
        s.window.start, s.window.used, s.window.prev, #s.log,
      }) do out[#out + 1] = v end
      for _, e in ipairs(s.log) do
        out[#out + 1] = e[1]
        out[#out + 1] = e[2]
      end
    end
    return out
  end,
}

local out = {}
for i, v in ipairs(calls[ARGV[1]]()) do out[i] = string.format('%.0f', v) end
return out
