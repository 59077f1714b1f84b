-- The arithmetic of package rate, in doubles: every value is an integer below
-- 2^53, so that nothing is rounded, and floor(a / b) of such integers is exact.
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

-- An instant, as rate.Time: whole µs and 1/q µs, in that order.
local function at(micros) return {micros, 0} end

local function less(t, u) return t[1] < u[1] or t[1] == u[1] and t[2] < u[2] end

local function timeMax(t, u) if less(t, u) then return u end return t end

local function timeMin(t, u) if less(u, t) then return u end return t end

local function shift(t, micros) return {t[1] + micros, t[2]} end
