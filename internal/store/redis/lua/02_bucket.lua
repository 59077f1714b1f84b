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
