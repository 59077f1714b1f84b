-- The arithmetic of package rate, in doubles: every value is an integer below
-- 2^53, so that nothing is rounded, and floor(a / b) of such integers is exact.
local floor, ceil, min, max, pack, unpack, sub, call

-- bind makes Lua's own functions known to those below, and Redis's. A library is loaded
-- without them, and sees them only when it is called.
local function bind()
  if floor then return end
  floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
  pack, unpack, sub, call = struct.pack, struct.unpack, string.sub, redis.call
end

-- An instant, as rate.Time: whole µs and 1/q µs, in that order.
local function at(micros) return {micros, 0} end

local function less(t, u) return t[1] < u[1] or t[1] == u[1] and t[2] < u[2] end

local function timeMax(t, u) if less(t, u) then return u end return t end

local function timeMin(t, u) if less(u, t) then return u end return t end

local function shift(t, micros) return {t[1] + micros, t[2]} end
