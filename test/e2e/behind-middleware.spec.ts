import compression from 'compression';
import { Recording, summaryOf } from '../helpers/recording.js';
import { AgentAppFixture, TRANSPORTS } from './agent-app.fixture.js';
import { heldAgent } from './agents.js';

const fixture = new AgentAppFixture();

test.each(TRANSPORTS)('C11 a stream behind compression() arrives as it happens, over %s', async (transport) => {
  const { release, ...agent } = heldAgent();
  const app = await fixture.start({ ...agent, configure: (nest) => nest.use(compression()) });
  const sender = Recording.send(await app.client({ transport }), 'hello');
  // Nothing more comes before the release: a stream that is compressed shows nothing until it ends.
  await sender.task();
  release.resolve();
  expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
});
