-- Asks Leaseway whether a request may pass. In a frontend:
--
--   http-request lua.leaseway http://127.0.0.1:8003/v1/check?profile=haproxy open
--
-- At that address haproxy.cfg has a way to Leaseway that says 503 or 504 when there is no answer in time. A refusal goes to the
-- client as Leaseway wrote it. Otherwise the rate-limit fields are left in variables of the transaction, for http-after-response.
-- Without an answer "open" lets the request through and "closed" refuses it.

local timeout = 2000 -- ms: longer than the timeouts on the way to Leaseway, which are the ones that count
local token = nil -- one of those of --token-file

-- Fields of the connection to the client, and those that only this proxy may say.
local left_out = {
  ["connection"] = true, ["keep-alive"] = true, ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true,
  ["upgrade"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true, ["proxy-authorization"] = true,
  ["x-user"] = true, ["leaseway-class"] = true, ["x-leaseway-token"] = true,
  ["x-forwarded-for"] = true, ["x-forwarded-host"] = true, ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true,
}

-- Fields of an answer that stay behind when there is a new one.
local of_connection = {
  ["connection"] = true, ["keep-alive"] = true, ["transfer-encoding"] = true, ["content-length"] = true, ["date"] = true,
}

local told = { "ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset" }

-- HAProxy counts the values of a field it has received from 0, and those of one to send from 1.
local function values(list)
  local out = {}
  for i = 0, #list do
    if list[i] ~= nil then out[#out + 1] = list[i] end
  end
  return out
end

local function question(txn)
  local fields = {}
  for name, list in pairs(txn.http:req_get_headers()) do
    if not left_out[name] then fields[name] = values(list) end
  end
  fields["x-forwarded-method"] = { txn.sf:method() }
  fields["x-forwarded-uri"] = { txn.sf:pathq() }
  fields["x-forwarded-host"] = { txn.sf:req_hdr("host") }
  -- Behind another proxy: append it to the X-Forwarded-For of the request, and name that proxy's network in --trusted-proxies too.
  fields["x-forwarded-for"] = { txn.sf:src() }
  if token ~= nil then fields["x-leaseway-token"] = { token } end
  return fields
end

local function refuse(txn, answer)
  local reply = txn:reply { status = answer.status }
  for name, list in pairs(answer.headers or {}) do
    if not of_connection[name] then
      for _, value in ipairs(values(list)) do reply:add_header(name, value) end
    end
  end
  reply:set_body(answer.body or "")
  txn:done(reply)
end

local function unavailable(txn)
  local reply = txn:reply { status = 503 }
  reply:add_header("content-type", "application/problem+json")
  reply:add_header("cache-control", "no-store")
  reply:add_header("retry-after", "1")
  reply:set_body('{"title":"Service Unavailable","status":503,"detail":"Limits cannot be checked at the moment. Try again in a second."}')
  txn:done(reply)
end

core.register_action("leaseway", { "http-req" }, function(txn, url, without)
  local answer = core.httpclient():get { url = url, headers = question(txn), timeout = timeout }
  local status = answer and answer.status or 0
  local leaseway = answer and answer.headers and answer.headers["leaseway-reason"] ~= nil

  if status >= 200 and status < 300 then
    for _, name in ipairs(told) do
      local list = answer.headers[name]
      if list ~= nil then txn:set_var("txn." .. name:gsub("-", "_"), values(list)[1]) end
    end
  elseif leaseway then
    refuse(txn, answer)
  elseif without == "closed" then
    unavailable(txn)
  end
end, 2)
