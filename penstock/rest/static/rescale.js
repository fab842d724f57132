// The parallelism of the job: a dialog that changes it, and the changes so far, by whom and why.
import { send } from './server.js';
import { duration, time, when } from './texts.js';
import { card, Component, Dialog, html, table } from './view.js';

const BY_AUTOSCALER = /^autoscaler: /;

export function rescales({ parallelism, autoscaler, rescales: found }) {
  // Nothing for a job that was never rescaled and does not rescale itself.
  if (!autoscaler && found.length === 0) return '';
  const most = autoscaler && (autoscaler['max-parallelism'] ?? 'the number of Spark’s cores');
  const note = autoscaler ? `now ${parallelism}; the autoscaler keeps it between ${autoscaler['min-parallelism']} and ${most}` : `now ${parallelism}`;
  return card('Parallelism', table('Changes of the parallelism, newest first', ['Time', 'Change', 'By', 'Reason', 'Outcome'], [...found].reverse().map((one) => html`<tr key=${one.timestamp}>
    <th scope="row" title=${time(one.timestamp)}>${when(one.timestamp)}</th><td>${one.from} → ${one.to}</td><td>${BY_AUTOSCALER.test(one.reason) ? 'autoscaler' : 'request'}</td><td>${BY_AUTOSCALER.test(one.reason) ? one.reason.replace(BY_AUTOSCALER, '') : '–'}</td>
    <td class="wide">${outcome(one)}</td></tr>`), 'The autoscaler has changed nothing yet.'), { note });
}

const outcome = (one) => (one['failure-cause'] ? html`<b class="bad">given up</b> ${one['failure-cause']}` : html`paused for ${duration(one['pause-ms'])}, at checkpoint <a href="#/checkpoints/${one.checkpointId}">${one.checkpointId}</a>`);

export class Rescale extends Component {
  constructor(props) {
    super(props);
    this.state = { wanted: props.parallelism };
  }

  start(event) {
    event.preventDefault();
    const { base, operate, close } = this.props, { wanted } = this.state;
    operate(`Rescaling to ${wanted}`, () => send('PATCH', `${base}/rescaling?parallelism=${wanted}`), `${base}/rescaling`, (found) => [`Rescaled from ${found.from} to ${found.to}`, `Paused for ${duration(found['pause-ms'])}, at checkpoint ${found.checkpointId}.`]);
    close();
  }

  render({ parallelism, most, close }, { wanted }) {
    return html`<${Dialog} title="Rescale" close=${close}>
      <p>The job takes a checkpoint and goes on from it with another number of subtasks, within the same application. It pauses for a few seconds.</p>
      <form onSubmit=${(event) => this.start(event)}>
        <label class="field"><span>Subtasks per operator, now ${parallelism}</span><input type="number" min="1" max=${most} required value=${wanted} onInput=${(event) => this.setState({ wanted: Number(event.target.value) })} /></label>
        <p class="note">At most ${most}, the job's max parallelism. Operators with a parallelism of their own keep it.</p>
        <div class="actions"><button class="main" disabled=${wanted === parallelism || !(wanted >= 1 && wanted <= most)}>Rescale</button><button type="button" onClick=${close}>Cancel</button></div>
      </form></${Dialog}>`;
  }
}
