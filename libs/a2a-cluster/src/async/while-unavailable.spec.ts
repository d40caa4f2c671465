import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { whileUnavailable } from './while-unavailable.js';

const away = new StoreUnavailableError('away');

/** Throws these errors, one at each try, and then returns the number of the try. */
const failing =
  (...errors: Error[]) =>
  (tries: number): Promise<number> => {
    const error = errors[tries - 1];
    return error ? Promise.reject(error) : Promise.resolve(tries);
  };

describe('A call that is repeated while its store is unavailable', () => {
  it('is repeated until the store answers', async () => {
    await expect(whileUnavailable(failing(away, away), () => true)).resolves.toBe(3);
  });

  it('throws what the store said last once it is not to go on', async () => {
    const last = new StoreUnavailableError('still away');
    const asked: number[] = [];
    const goesOn = (error: StoreUnavailableError, tries: number): Promise<boolean> => {
      asked.push(tries);
      return Promise.resolve(error !== last);
    };
    await expect(whileUnavailable(failing(away, last), goesOn)).rejects.toBe(last);
    expect(asked).toEqual([1, 2]);
  });

  it('is not repeated after any other error', async () => {
    const defect = new Error('a defect');
    await expect(whileUnavailable(failing(away, defect), () => true)).rejects.toBe(defect);
  });
});
