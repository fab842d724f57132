// The view library, bound to its templates, and the pieces that all pages use.
import { h, options, render, Component } from './vendor/preact.mjs';
import htm from './vendor/htm.mjs';
import { visible } from './texts.js';

export { render, Component };
export const html = htm.bind(h);

// Names and messages come from programs: every text that is shown has its control characters escaped.
options.vnode = (node) => { if (typeof node.props === 'string') node.props = visible(node.props); };

const ICONS = {
  job: 'M2.5 3.5h4v4h-4zM9.5 8.5h4v4h-4zM6.5 5.5h3a2 2 0 0 1 2 2v1',
  checkpoints: 'M8 2.2l5.3 2.9L8 8 2.7 5.1zM2.7 8L8 10.9 13.3 8M2.7 10.9L8 13.8l5.3-2.9',
  state: 'M3 4c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2zm0 0v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M3 8c0 1.1 2.2 2 5 2s5-.9 5-2',
  savepoints: 'M4 2.5h8v11L8 10.8 4 13.5z',
  exceptions: 'M8 2.5l6 10.5H2zM8 6.8v3M8 11.6v.1',
  configuration: 'M2.5 5h5m3 0h3M2.5 11h3m3 0h5M9 3.4v3.2M7 9.4v3.2',
  guarantees: 'M8 2l5 1.8v4c0 3-2 5-5 6.2-3-1.2-5-3.2-5-6.2v-4zM5.8 8l1.6 1.6 2.9-3',
  logs: 'M3 3.5h10M3 6.5h7M3 9.5h10M3 12.5h5',
  copy: 'M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z',
  down: 'M8 2.5v7.5m-3-3l3 3 3-3M3 13h10',
  jobs: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11z',
};

export const icon = (name) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

export function table(caption, columns, rows, empty = 'Nothing yet.') {
  // A column is a name, or [name, 'number'].
  const heads = columns.map((column) => (Array.isArray(column) ? column : [column, '']));
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table><caption class="unseen">${caption}</caption>
    <thead><tr>${heads.map(([name, kind]) => html`<th scope="col" class=${kind}>${name}</th>`)}</tr></thead>
    <tbody>${rows.length === 0 ? html`<tr><td colspan=${heads.length} class="nothing">${empty}</td></tr>` : rows}</tbody></table></div>`;
}

export const facts = (pairs) => html`<dl class="facts">${pairs.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? '–'}</dd></div>`)}</dl>`;

export const card = (title, content, { note, wide } = {}) => html`<section class="card ${wide ? 'wide' : ''}">
  ${title ? html`<header><h2>${title}</h2>${note ? html`<span class="note">${note}</span>` : ''}</header>` : ''}${content}</section>`;

export const stat = (name, value, note = ' ', tone = '') => html`<div class="stat"><dt>${name}</dt><dd class=${tone}>${value}<small>${note}</small></dd></div>`;

export const empty = (title, text) => html`<div class="empty"><strong>${title}</strong><p>${text}</p></div>`;

export const banner = (tone, title, text, role = 'status') => html`<div class="banner ${tone}" role=${role}><strong>${title}</strong>${text ? html`<div>${text}</div>` : ''}</div>`;

const GOOD = new Set(['RUNNING', 'FINISHED', 'COMPLETED', 'restored', 'same']);
const BAD = new Set(['FAILED', 'FAILING', 'LOST', 'refused', 'dropped']);
const QUIET = new Set(['CANCELED', 'SUSPENDED', 'new', 'waits']);
export const tone = (status) => (GOOD.has(status) ? 'good' : BAD.has(status) ? 'bad' : QUIET.has(status) ? 'quiet' : 'warn');

export const badge = (status) => html`<span class="badge ${tone(status)}"><i aria-hidden="true"></i>${status.replaceAll('_', ' ')}</span>`;

export class Copied extends Component {
  // A text with a button that copies it.
  async copy() {
    await navigator.clipboard.writeText(this.props.text);
    this.setState({ done: true });
    setTimeout(() => this.setState({ done: false }), 1500);
  }

  render({ text, shown }, { done }) {
    return html`<span class="copied"><code title=${text}>${shown ?? text}</code><button class="plain" type="button" onClick=${() => this.copy()} aria-label=${`Copy ${shown ?? text}`}>${done ? html`<span role="status">✓</span>` : icon('copy')}</button></span>`;
  }
}

export const path = (text) => (text ? html`<${Copied} text=${text} />` : '–');

export const file = (text) => html`<${Copied} text=${text} shown=${`…/${text.split('/').filter(Boolean).pop()}`} />`;

export class Dialog extends Component {
  // A modal dialog; the browser keeps the focus inside and closes it with Escape.
  componentDidMount() { this.dialog.showModal(); }

  render({ title, close, children }) {
    return html`<dialog aria-label=${title} onClose=${close} ref=${(dialog) => { this.dialog = dialog; }} onClick=${(event) => { if (event.target === this.dialog) this.dialog.close(); }}>
      <form method="dialog"><header><h2>${title}</h2><button class="plain" aria-label="Close">✕</button></header></form>${children}</dialog>`;
  }
}
