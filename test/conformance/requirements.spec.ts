import { TRANSPORTS } from '../e2e/agent-app.fixture.js';
import { bindingRequirements } from './bindings.requirements.js';
import { dataModelRequirements } from './data-model.requirements.js';
import { messageRequirements } from './messages.requirements.js';
import { pushRequirements } from './push.requirements.js';
import { inEachSetUp } from './set-ups.fixture.js';
import { streamRequirements } from './streams.requirements.js';
import { taskRequirements } from './tasks.requirements.js';
import { WireClient } from './wire.client.js';

// Each test is named after the requirements of A2A 1.0 that it shows, by the compatibility kit's ids: docs/conformance.md.
inEachSetUp((served) => {
  bindingRequirements(served);

  describe.each(TRANSPORTS)('over %s', (transport) => {
    beforeAll(() => {
      served.client = new WireClient(served.url, transport);
    });
    messageRequirements(served);
    dataModelRequirements(served);
    taskRequirements(served);
    streamRequirements(served);
    pushRequirements(served);
  });
});
