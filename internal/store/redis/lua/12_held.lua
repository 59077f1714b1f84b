-- The short way through an op on a bucket that is kept by itself since somebody has a lease of it: most are renewals, the others
-- takes of what others lease. It does what load, apply and save would do, to the last bit, as long as the terms stay and all leases
-- live on; for all else it is nil, and nothing was done.
--
-- It makes no tables. Of each lease of others it reads four numbers, where they are, and writes it as it was. The level is one
-- number, in 1/q µs from now, so that what rate does with instants are sums: it is exact, since a burst is at most 2^51, and never
-- below 0 in the end, since what is leased lifts it. The functions have the names of those of the ledger whose work they do.
local held = (function() -- and no block: Lua has 200 names in one scope, and no more
local StateFormat, StateSize = '<i8i8i8dddi8i8dddI4I4I4I4I4', 108 -- see packState; nobody looks at what is read as d
local LevelSize, CountAt, CountSize = 24, 92, 4 -- the first numbers of it; and how many leases live
local LeaseFormat, LeaseSize = '<c8i8i8i8i8i8i8i8i8I4I4', 80 -- see packLeases
local OutlineFormat, OutlineAt = '<i8i8di8i8', 16
local MaxLevel = 2^52

local now, p, q, burst, full, ttl -- full is the level of a bucket that has no token
local level
local state, first, from, to -- where in the bytes the numbers of the ledger are, its leases, and l, the lease of who asks
local count, others, waits, late, last, ends -- leases, with l; what the others have, how many of them wait for a turn, and are late for it, until when, and when the last ends
local id, granted, spent, debt, due, version, low, high -- of l

local function left() return granted - spent end

local function clamp(n) return max(-burst, min(n, burst)) end

local function lift(n) level = max(level, clamp(n) * p) end

local function charge(n) level = max(level, min(level + clamp(n) * p, 2 * full)) end

local function credit(n) level = level - clamp(n) * p end

local function avail() return max(0, floor((full - level) / p)) end

local function wait(n) return max(0, ceil((level + (n - burst) * p) / q)) end

local function collect()
  local long = max(scarceFloor, floor(p / q) * scarcePerHolder * count)
  return min(floor(floor(full / q) / 4), long, scarceCeiling, max(scarceFloor, floor(ttl / 2)))
end

-- survey looks at the leases of the others, and reports whether they live on.
local function survey(bytes)
  others, waits, late, last, ends = 0, 0, 0, now, 0
  local since = now - floor(collect() / 4)
  for pos = first, #bytes, LeaseSize do
    if pos ~= from then
      local g, s, _, exp, turn = unpack(OutlineFormat, bytes, pos + OutlineAt)
      if exp <= now then return false end
      others = others + g - s
      if exp > ends then ends = exp end
      if turn > now then
        waits = waits + 1
        if turn > last then last = turn end
      elseif turn > since then
        late = late + 1
      end
    end
  end
  return true
end

-- find looks for the holder's lease, which is one more if there is none. Its name may be in other numbers, too.
local function find(bytes, holder)
  from = first - 1
  repeat
    from = string.find(bytes, holder, from + 1, true)
  until not from or (from - first) % LeaseSize == 0
  if not from then count = count + 1 end
end

local function settle(t, ask)
  if ask.spent > spent then
    local frac = ask.lagFrac
    if frac < 0 or frac >= q then frac = q end
    level = max(level, min(clamp(granted - ask.spent + others) * p + frac - ask.lag * q, clamp(others + left()) * p))
    spent = ask.spent
  end
  lift(others + left())
  local more = ask.debt - debt
  if more > 0 or id == ask.lease then
    if more > 0 then charge(more) else credit(-more) end
    debt = ask.debt
  end
  lift(others + left())
  if version < t.version then
    version = t.version
    if level > full and left() > 0 then
      credit(left())
      granted = spent
    end
  end
end

local function giveBack(ask)
  local r = granted - max(ask.raiseTo, spent)
  if r > 0 then
    granted = granted - r
    credit(r)
  end
end

local function fair() return max(1, floor(floor(burst * 4 / 5) / count)) end

local function ofTurn(available)
  local n = 1 + waits
  local part = 1 + min(late, floor(n / 10))
  local comes = floor(5 * collect() * q / (4 * n * p))
  return max(1, min(floor((available + part - 1) / part), max(comes, floor(available / (2 * n)))))
end

local function share(available)
  local most = min(available, floor(burst * 4 / 5) - others - left())
  if count == 1 then return most end
  if available >= floor(burst / 2) then return min(floor(available / (count + 1)), most) end
  if available >= floor(burst / 4) then return min(fair() - left(), most) end
  return min(fair() - left(), ofTurn(available), most)
end

local function grant(ask)
  local available = avail()
  local rest, refused = available, false
  local takes, needs = ask.takes, ask.needs
  low, high = 0, 0
  for i = 1, #takes do
    local cost = takes[i]
    if cost < 0 or cost > rest then
      refused = true
    else
      rest = rest - cost
      if i <= 32 then low = low + 2^(i - 1) else high = high + 2^(i - 33) end
    end
  end
  for i = 1, #needs do
    local cost = min(needs[i], max(0, ask.raiseTo - granted))
    if cost < 0 or cost > rest then
      refused = true
    else
      rest = rest - cost
      granted = granted + cost
    end
  end
  local leased = max(0, min(ask.raiseTo - granted, share(rest)))
  granted = granted + leased
  level = level + (available - rest + leased) * p
  return refused
end

local function lives(ask)
  if not ask.long then return ttl end
  local size = floor(burst / (32 * count))
  if size == 0 or left() > size or avail() < floor(burst / 2) then return ttl end
  return max(ttl, min(16 * ttl, 8000000))
end

local function turn()
  local whole = collect()
  local step = floor(whole / count)
  local pause = whole
  if last > now then pause = max(whole - min(step, floor(whole / 4)), min(last + step - now, 2 * whole)) end
  due = now + pause
  return pause
end

local function askAgain()
  local available = avail()
  local next = wait(min(burst, available + 1))
  if count < 2 and others == 0 then return next end
  if left() >= fair() or available > 0 and available >= floor(burst / 4) then return 0 end
  if available > 0 then return turn() end
  return max(next, turn())
end

-- read reports whether bytes are such a bucket, and what it has when this op begins.
local function read(bytes, t)
  state = 2 + #t.bytes
  if t.algorithm ~= TokenBucket or #bytes <= state + StateSize or sub(bytes, 2, state - 1) ~= t.bytes then return false end
  local before, micros, frac, _, _, _, start, ahead, _, _, _, entries, live, old, next, holdings = unpack(StateFormat, bytes, state)
  if now < before or start ~= 0 or ahead + entries + old + next + holdings > 0 then return false end
  p, q, burst, ttl, count, first = t.p, t.q, t.burst, t.ttl, live, state + StateSize
  full, level = burst * p, max(0, (micros - now) * q + frac)
  return level <= MaxLevel
end

-- readLease reports whether l goes on with this ask. One that there is not is opened.
local function readLease(bytes, t, ask)
  if not from then
    from, to = #bytes + 1, #bytes + 1
    id, granted, spent, debt, version = leaseID(now, ask.seq), 0, 0, ask.debtAcked, t.version
    ask.raiseTo, ask.spent = ask.raiseTo - ask.spent, 0
    return true
  end
  local exp, seq, _
  _, id, granted, spent, debt, exp, due, seq, version, low, high = unpack(LeaseFormat, bytes, from)
  to = from + LeaseSize
  return now < exp and seq < ask.seq and id == ask.lease and ask.spent <= granted
end

-- write keeps the ledger with l as the bytes of it are now, '' if it has ended.
local function write(where, bytes, l)
  local stays = max(ends, now + ceil(level / q)) - now
  local micros = floor(level / q)
  call('SET', where.held,
    sub(bytes, 1, state - 1) .. pack('<i8i8i8', now, now + micros, level - micros * q)
      .. sub(bytes, state + LevelSize, state + CountAt - 1) .. pack('<I4', count)
      .. sub(bytes, state + CountAt + CountSize, from - 1) .. l .. sub(bytes, to),
    'PX', max(where.least, ceil((stays + floor(clamp(others + left()) * p / q) + 1) / 1000)))
end

return function(where, moment, bytes)
  local t = where.offered
  now = moment
  if not read(bytes, t) then return nil end
  local ask = unpackAsk(where.ask)
  if ask.ahead or ask.slots then return nil end
  find(bytes, ask.holder)
  if not survey(bytes) or not readLease(bytes, t, ask) then return nil end

  settle(t, ask)
  giveBack(ask)
  local refused = grant(ask)
  local life = lives(ask)
  local flags, holders, again = SameTerms, count, 0
  due = 0
  if refused or granted < ask.raiseTo then
    flags, again = flags + Short, askAgain()
  end

  local l, lease, has = '', 0, 0
  if left() == 0 and debt == ask.debt and ask.debtAcked == debt and ask.raiseTo <= granted and not ask.keep then
    count = count - 1
    if count == 0 then return nil end -- it is at rest
  else
    local exp = now + life + Guard
    ends, lease, has = max(ends, exp), id, granted
    l = pack(LeaseFormat, ask.holder, id, granted, spent, debt, exp, due, ask.seq, version, low, high)
  end
  write(where, bytes, l)
  local micros = floor(level / q)
  return pack(AnswerFormat, flags, ask.seq, lease, low, high, has, spent, debt, life, micros, level - micros * q, 0, 0, 0, 0, 0,
    others, holders, again, 0)
end
end)()
