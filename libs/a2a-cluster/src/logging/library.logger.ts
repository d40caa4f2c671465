import { Logger } from '@nestjs/common';
import { escaped } from './escaped.js';

/**
 * Nest's logger for messages that may quote clients or executors: nobody but the library begins a line of its log, or
 * sends control characters to a terminal.
 */
export class LibraryLogger extends Logger {
  override log(message: string): void {
    super.log(escaped(message));
  }

  override warn(message: string): void {
    super.warn(escaped(message));
  }

  override error(message: string): void {
    super.error(escaped(message));
  }
}
