-- The shortest way through an op: one take, and nothing else, from a bucket that
-- nobody leases and that has enough. Keys that are seen seldom ask so, which are
-- most of those that Redis hears of. It does what load, apply and save would do,
-- to the last bit, with none of their tables; for all else it is nil, and nothing
-- was done.

local take
do -- Lua has 200 names in one scope, and no more

-- plain returns seq, cost and debt of an ask that is no more than one take.
local function plain(ask)
  if string.byte(ask) ~= 0 then return nil end
  local _, _, _, seq, lease, spent, _, _, debt, acked, raiseTo, ended, _, _, takes, needs, pos = unpack(AskFormat, ask)
  if takes ~= 1 or needs ~= 0 or lease ~= 0 or spent ~= 0 or raiseTo ~= 0 or ended ~= 0 or debt ~= acked then return nil end
  return seq, (unpack('<i8', ask, pos)), debt
end

-- fullAt returns when the bucket is full again, µs and 1/q µs, and what the group has under the name of the terms;
-- nil where it takes more to say.
local function fullAt(at, now, body)
  local t = at.offered
  local found = redis.call('HMGET', at.group, at.name, termsField(t.ref))
  local bytes, kept = found[1], found[2]
  if not bytes then
    if lossOf(at, now) > 0 and not t.whole then return nil end
    return now, 0, kept
  end
  if whole(bytes) or restRef(bytes) ~= t.ref or kept ~= body then return nil end
  local written, a, b = restNumbers(bytes)
  if written > now then return nil end
  at.terms = t.bytes
  if written + a < now then return now, 0, kept end
  return written + a, b, kept
end

-- keep writes what is left of the ledger, and reports whether it could. A group that begins, as one of seldom
-- keys often does, is written at once.
local function keep(at, t, rest, ms, kept, body)
  if not at.terms then
    if not kept then
      local field = termsField(t.ref)
      redis.call('HSET', at.group, field, body, at.name, rest)
      if redis.call('HLEN', at.group) == 2 then
        redis.call('PEXPIRE', at.group, eased(t, ms))
        return true
      end
      renew(at, at.now, field)
    elseif kept ~= body then
      return false
    else
      redis.call('HSET', at.group, at.name, rest)
      sweep(at, at.now)
    end
  else
    redis.call('HSET', at.group, at.name, rest)
  end
  expireAfter(at, t, ms)
  return true
end

-- take answers the ask if it is such a one; the key held is known to be missing.
take = function(at, now, ask)
  local t = at.offered
  if t.algorithm ~= TokenBucket then return nil end
  local seq, cost, debt = plain(ask)
  if not seq or cost < 1 then return nil end
  local body = string.sub(t.bytes, 5)
  local tat, frac, kept = fullAt(at, now, body)
  if not tat then return nil end
  local used = (tat - now) * t.q + frac + cost * t.p
  if used > t.burst * t.p then return nil end
  local micros = floor(used / t.q)
  frac = used - micros * t.q
  at.now = now
  local ms = max(at.least, ceil((micros + (frac > 0 and 1 or 0)) / 1000))
  if not keep(at, t, packNumbers(t.ref, now, micros, frac), ms, kept, body) then return nil end
  return pack(AnswerFormat, at.found and SameTerms + DataLost or SameTerms, seq, 0, 1, 0, 0, 0, debt, t.ttl, micros, frac,
    0, 0, 0, 0, 0, 0, 1, 0, 0)
end
end

-- op has KEYS group, held, mark, and ARGV the ledger's name in the group,
-- terms, ask, the shortest time to live of a key (ms), and the time (µs) or ''.
local function op(keys, argv)
  bind()
  local now, offered = timeOf(argv[5]), sameTerms(argv[2])
  local at = {group = keys[1], held = keys[2], mark = keys[3], name = argv[1], least = tonumber(argv[4]), offered = offered}
  local bytes = redis.call('GET', at.held)
  local short = not bytes and take(at, now, argv[3])
  if short then return short end
  local s, was = load(at, now, bytes)
  local answer = apply(s, now, offered, unpackAsk(argv[3]))
  save(at, s, was)
  return packAnswer(answer, offered, s.over, at.found)
end
