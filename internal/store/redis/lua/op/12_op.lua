-- One op on one ledger. Where it is kept:
--
--	group   a hash of about a hundred ledgers at rest, each of a few bytes, and the
--	        terms that they were last charged under, each once
--	held    a ledger that has leases, a log or slots, by itself
--	mark    says of its hash slot when data was lost, if it ever was
--
-- KEYS: group, held, mark. ARGV: the ledger's name in the group, terms, ask,
-- the shortest time to live (ms), and the time (µs) unless it is Redis's own.
local group, held, mark = KEYS[1], KEYS[2], KEYS[3]
local name, least = ARGV[1], tonumber(ARGV[4])
local MarkTTL = 400 * 24 * 3600 * 1000 -- ms
local SweepFrom, SweepEvery, SweepSize = 48, 16, 32

local function termsField(ref) return 't' .. ref end

-- expireAfter has key live for ms, or as long as it would anyway.
local function expireAfter(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
end

-- lossOf returns when the data of this hash slot was lost, 0 for never. A mark
-- is set for each slot before the first op of all: one that is missing was lost, by now.
local function lossOf(now)
  local bytes = redis.call('GET', mark)
  if bytes then return (unpack('<i8', bytes)) end
  redis.call('SET', mark, pack('<i8', now), 'PX', MarkTTL)
  return now
end

-- termsOf returns the terms of that name that the group has, by way of known.
local function termsOf(ref, known)
  local terms = known[ref]
  if not terms then
    local body = redis.call('HGET', group, termsField(ref))
    if body then
      terms = unpackTerms(ref .. body)
      known[ref] = terms
    end
  end
  return terms
end

-- over reports whether a ledger at rest says nothing any more.
local function over(bytes, now, known)
  local terms = termsOf(restRef(bytes), known)
  if not terms then return true end
  return clear(unpackRest(bytes, terms)) <= now
end

-- sweep looks at some ledgers of a group that has grown, and drops those that
-- say nothing: at most every other one of a group that is full is dead.
local function sweep(now)
  local n = redis.call('HLEN', group)
  if n < SweepFrom or n % SweepEvery ~= 0 then return end
  local known = {}
  local some = redis.call('HRANDFIELD', group, SweepSize, 'WITHVALUES')
  for i = 1, #some, 2 do
    if #some[i] == #name and some[i] ~= name and over(some[i + 1], now, known) then redis.call('HDEL', group, some[i]) end
  end
end

-- renew drops what says nothing from the whole group, and the terms that nobody
-- refers to then. It comes with new terms only: when a rule has changed.
local function renew(now)
  local known, used, all = {}, {}, redis.call('HGETALL', group)
  for i = 1, #all, 2 do
    if #all[i] == #name then
      if over(all[i + 1], now, known) then
        redis.call('HDEL', group, all[i])
      else
        used[termsField(restRef(all[i + 1]))] = true
      end
    end
  end
  for i = 1, #all, 2 do
    if #all[i] ~= #name and not used[all[i]] then redis.call('HDEL', group, all[i]) end
  end
end

-- keepTerms makes sure that the group has the terms, and reports whether it can:
-- others may have the same name.
local function keepTerms(terms, now)
  local body = string.sub(packTerms(terms), 5)
  local kept = redis.call('HGET', group, termsField(terms.ref))
  if kept then return kept == body end
  renew(now)
  redis.call('HSET', group, termsField(terms.ref), body)
  return true
end

-- load returns the ledger, and where it was: in the group, by itself, or nowhere.
local function load(offered, now)
  local bytes = redis.call('GET', held)
  if bytes then return unpackState(bytes), 'held' end
  bytes = redis.call('HGET', group, name)
  local terms = bytes and termsOf(restRef(bytes), {})
  if terms then return unpackRest(bytes, terms), 'rest' end
  local s, loss = newState(), lossOf(now)
  if loss > 0 and not offered.whole then lost(s, offered, loss) end
  return s, 'nowhere'
end

-- save keeps the ledger as small as it goes.
local function save(s, was)
  local a, b
  if not idle(s) then
    local ms = max(least, ceil((ends(s) - s.now) / 1000))
    a, b = packable(s)
    if a and keepTerms(s.terms, s.now) then
      if redis.call('HSET', group, name, packRest(s, a, b)) == 1 then sweep(s.now) end
      expireAfter(group, ms)
    else
      a = nil
      redis.call('SET', held, packState(s), 'PX', ms)
    end
    if a and was ~= 'held' or not a and was ~= 'rest' then return end -- it is where it was
  end
  if was == 'held' then redis.call('DEL', held) end
  if was == 'rest' then redis.call('HDEL', group, name) end
end

local now
if ARGV[5] then
  now = tonumber(ARGV[5])
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local offered = unpackTerms(ARGV[2])
local s, was = load(offered, now)
local answer = apply(s, now, offered, unpackAsk(ARGV[3]))
save(s, was)
return packAnswer(answer, offered)
