type Step = () => Promise<void> | void;

const steps = new Set<Step>();

/**
 * Has `step` run when the test file is done, whatever failed in it: before the file's own `afterAll` hooks, since the
 * one below is registered when the file imports this module, and Jest runs them in that order.
 *
 * @returns a function that takes the step back
 */
export function onCleanUp(step: Step): () => void {
  steps.add(step);
  return () => steps.delete(step);
}

afterAll(async () => {
  const outcomes = await Promise.allSettled([...steps].map(async (step) => step()));
  steps.clear();
  const errors = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
  if (errors.length > 0) throw new AggregateError(errors, 'Cleaning up after the test file failed');
});
