import { bindingRequirements } from './bindings.requirements.js';
import { dataModelRequirements } from './data-model.requirements.js';
import { grpcRequirements } from './grpc.requirements.js';
import { httpRequirements } from './http.requirements.js';
import { messageRequirements } from './messages.requirements.js';
import { pushRequirements } from './push.requirements.js';
import { BINDINGS, clientOf, inEachSetUp } from './set-ups.fixture.js';
import { streamRequirements } from './streams.requirements.js';
import { taskRequirements } from './tasks.requirements.js';

// Each test is named after the requirements of A2A 1.0 that it shows, by the compatibility kit's ids; see
// docs/internals/conformance.md.
inEachSetUp((served) => {
  bindingRequirements(served);
  httpRequirements(served);
  grpcRequirements(served);

  describe.each(BINDINGS)('over %s', (binding) => {
    beforeAll(() => {
      served.client = clientOf(served, binding);
    });
    messageRequirements(served);
    dataModelRequirements(served);
    taskRequirements(served);
    streamRequirements(served);
    pushRequirements(served);
  });
});
