// The official client for Node.js at SEKISHO_URL; prints what it saw, as JSON.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.SEKISHO_URL, apiKey: process.env.SEKISHO_KEY, maxRetries: 0 });
const messages = [{ role: "user", content: "Hello" }];
const tool = { type: "function", function: { name: "get_weather", parameters: { type: "object", properties: {} } } };
const weather = { type: "function", function: { name: "get_weather" } };
const seen = {};

seen.chat = (await client.chat.completions.create({ model: "fake", messages })).choices[0].message.content;
seen.stream = "";
for await (const chunk of await client.chat.completions.create({ model: "fake", messages, stream: true })) {
  seen.stream += chunk.choices[0]?.delta?.content ?? "";
}
const called = await client.chat.completions.create({ model: "fake", messages, tools: [tool], tool_choice: weather });
seen.tools = called.choices[0].message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
seen.models = (await client.models.list()).data.map((model) => model.id);
seen.response = (await client.responses.create({ model: "fake", input: "Hello" })).output_text;
seen.responseStream = "";
for await (const event of await client.responses.create({ model: "fake", input: "Hello", stream: true })) {
  if (event.type === "response.output_text.delta") seen.responseStream += event.delta;
}
try {
  await client.chat.completions.create({ model: "none", messages });
} catch (error) {
  seen.error = [error.constructor.name, error.status, error.code];
}
console.log(JSON.stringify(seen));
