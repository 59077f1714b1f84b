-- Several ops in one call: to call a function takes as long as half of a take. Their keys may be in any slots of this node. They are not declared, so
-- that no one of them says where the call belongs: Redis looks at each as it is used, and refuses the op if it is not this node's,
-- or is not here while its slot is on its way. Nothing has been done then, since an op asks for each key that it may
-- write before it writes any. A caller must not follow such a slot: where it goes to Redis would take a key for missing that is still here.
--
-- ARGV: the shortest time to live of a key (ms), and the time (µs) or '' for Redis's own; then of each op its terms, '' for those of the op
-- before, its group, and in one text how held is named behind its group, the ledger's name, and the ask: to pass an argument takes
-- longer than to cut it off. The answer has one for each op, which is an error for those that failed.
local ops
do
local HeldSize, AskAt = 17, 30 -- bytes
local at = {}
ops = function(_, argv)
  bind()
  local now, answers, n, i = timeOf(argv[2]), {}, 0, 3
  at.least, at.told = tonumber(argv[1]), argv[2] ~= ''
  local function all()
    while i <= #argv do
      local rest = argv[i + 2]
      if argv[i] ~= '' then
        at.offered = nil -- not those of another rule, if these cannot be read
        at.offered = sameTerms(argv[i])
      end
      at.group, at.held, at.mark = argv[i + 1], nil, nil
      at.rest, at.name, at.ask = rest, sub(rest, HeldSize + 1, AskAt - 1), sub(rest, AskAt)
      local answer = one(at, now)
      n, i = n + 1, i + 3
      answers[n] = answer
    end
  end
  repeat -- after one that fails with the next
    local ok, failure = pcall(all)
    if not ok then
      n, i = n + 1, i + 3
      answers[n] = {err = type(failure) == 'table' and failure.err or failure}
    end
  until ok
  return answers
end
end
