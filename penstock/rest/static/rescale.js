// A dialog that brings the job to another parallelism.
import { send } from './server.js';
import { duration } from './texts.js';
import { Component, Dialog, html } from './view.js';

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
