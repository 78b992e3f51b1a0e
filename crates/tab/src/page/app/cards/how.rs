//! How an attack works, for those who open the drawer.

use leptos::prelude::*;
use unmask_core::Explanation;

/// Sentence, equation, limits, and what stands in the equation.
#[component]
pub fn How(
    /// What to explain.
    how: Memo<Option<Explanation>>,
    /// The attack's name for people.
    title: Signal<Option<String>>,
) -> impl IntoView {
    let part = move |of: fn(&Explanation) -> &String| move || how.with(|how| how.as_ref().map(|how| of(how).clone()));
    let symbols = move || how.with(|how| how.as_ref().map(|how| how.symbols.clone()).unwrap_or_default());
    view! {
        <section class="explanation" data-testid="how">
            <h4>{move || title.get()}</h4>
            <p>{part(|how| &how.sentence)}</p>
            <p class="equation">{part(|how| &how.equation)}</p>
            <p class="sub">{part(|how| &how.limits)}</p>
            <table>
                <thead>
                    <tr>
                        <th scope="col">"symbol"</th>
                        <th scope="col">"what it is"</th>
                        <th scope="col">"shape"</th>
                    </tr>
                </thead>
                <tbody>
                    <For each=symbols key=Clone::clone let:symbol>
                        {
                            let [name, meaning, shape] = symbol;
                            view! { <tr><th scope="row">{name}</th><td>{meaning}</td><td>{shape}</td></tr> }
                        }
                    </For>
                </tbody>
            </table>
        </section>
    }
}
