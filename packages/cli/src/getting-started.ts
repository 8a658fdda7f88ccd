import type { RunningService } from '@trainyard/server';

/** What a started service prints: where it is, the key (in full only when it is new), and three ways in. */
export function gettingStarted(service: RunningService, seconds: number): string {
  const { url, apiKey, keyFile, modelId } = service;
  const key = apiKey?.isNew === true ? apiKey.secret : `$(cat ${keyFile})`;
  const keyLine =
    apiKey === null
      ? `API key   (made at the first start; not on this machine any more)`
      : apiKey.isNew
        ? `API key   ${apiKey.secret}   (shown once; also in ${keyFile}, readable by you alone)`
        : `API key   in ${keyFile}`;
  return `
Trainyard is ready in ${seconds.toFixed(1)} s
URL       ${url}/v1
${keyLine}
Model     ${modelId}

openai (Node)
  const client = new OpenAI({ baseURL: '${url}/v1', apiKey: process.env.TRAINYARD_API_KEY });
  const answer = await client.chat.completions.create({ model: '${modelId}', messages: [{ role: 'user', content: 'Hello' }] });
  console.log(answer.choices[0].message.content);

ART (Python)
  backend = ServerlessBackend(api_key=os.environ["TRAINYARD_API_KEY"], base_url="${url}/v1")
  model = art.TrainableModel(name="first", project="demo", base_model="${modelId}")
  await model.register(backend)

curl
  export TRAINYARD_API_KEY="${key}"
  curl ${url}/v1/chat/completions -H "Authorization: Bearer $TRAINYARD_API_KEY" -H 'Content-Type: application/json' \\
    -d '{"model": "${modelId}", "messages": [{"role": "user", "content": "Hello"}]}'

`;
}
