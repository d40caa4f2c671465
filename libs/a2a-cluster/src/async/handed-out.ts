/**
 * A promise as it is given to an executor, which may forget to await it. Left alone its rejection would end the process
 * and all other turns with it; so it is heard here, and told to `onRejected`.
 */
export function handedOut<T>(promise: Promise<T>, onRejected: (error: unknown) => void): Promise<T> {
  promise.catch(onRejected);
  return promise;
}
