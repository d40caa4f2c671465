import type { LoggerService } from '@nestjs/common';
import { writeErrorLine } from '../harness/output.js';

/** Nest's warnings and errors on stderr; stdout belongs to what a replica reports. */
export class StderrLogger implements LoggerService {
  log(): void {
    // Nothing that goes well is worth a line.
  }

  warn(message: unknown, ...rest: unknown[]): void {
    this.write('warning', message, rest);
  }

  error(message: unknown, ...rest: unknown[]): void {
    this.write('error', message, rest);
  }

  fatal(message: unknown, ...rest: unknown[]): void {
    this.write('fatal', message, rest);
  }

  /** Nest puts a stack, if any, before the context. */
  private write(level: string, message: unknown, rest: unknown[]): void {
    const context = rest.length > 0 ? `[${String(rest.at(-1))}] ` : '';
    const text = message instanceof Error ? (message.stack ?? message.message) : message;
    const details = rest.slice(0, -1).map((detail) => `\n${String(detail)}`);
    writeErrorLine(`${level} ${context}${typeof text === 'string' ? text : JSON.stringify(text)}${details.join('')}`);
  }
}
